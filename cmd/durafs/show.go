package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// ShowOptions says how to show a run.
type ShowOptions struct {
	SocketOption
	JSON bool
}

// AddFlags adds the flags of show.
func (o *ShowOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	addJSONFlag(f, &o.JSON, "print the public record on one line")
}

func newShowCommand(a *app) *cobra.Command {
	var o ShowOptions
	cmd := &cobra.Command{
		Use:     "show RUN",
		Short:   "Show what is known of one run",
		GroupID: groupRead,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runShow(cmd.Context(), a, o, args[0]) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runShow(ctx context.Context, a *app, o ShowOptions, id string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	r, _, err := c.Get(ctx, id)
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	if o.JSON {
		return a.printJSON(r)
	}
	for _, f := range recordFields(r) {
		if f.value != "" {
			if _, err := fmt.Fprintf(a.stdout, "%-12s %s\n", f.name, term.Safe(f.value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// field is a line of what show prints; one without a value is left out.
type field struct{ name, value string }

func recordFields(r *control.Record) []field {
	fields := []field{
		{"run", r.ID},
		{"phase", r.Phase},
		{"what", r.Preview},
		{"started", timeText(r.StartedAt)},
		{"changed", timeText(r.ChangedAt)},
		{"log", fmt.Sprintf("%s, %s", term.Count(r.Log.Rows, "row"), term.Bytes(r.Log.Bytes))},
		{"labels", labelsText(r.Labels)},
		{"parent", r.Parent},
		{"copied from", r.CopiedFrom},
		{"open calls", callsText(r.OpenCalls)},
	}
	if r.Pinned {
		fields = append(fields, field{"pinned", "yes: its log stays, whatever retention says"})
	}
	if r.LateRows > 0 {
		fields = append(fields, field{"late", term.Count(r.LateRows, "row") + " came too late"})
	}
	if r.Damaged {
		fields = append(fields, field{"damaged", "yes; durafs verify tells more"})
	}
	if p := r.Pause; p != nil {
		fields = append(fields, field{"paused", strings.TrimSuffix(p.Reason+": "+p.Detail, ": ") + ", " + timeText(p.At)})
	}
	if c := r.Cancel; c != nil {
		fields = append(fields, field{"cancelled", timeText(c.RequestedAt) + " by uid " + strconv.FormatUint(uint64(c.ByUID), 10) + abortText(c)})
	}
	if t := r.Terminal; t != nil {
		fields = append(fields, outcomeFields(t)...)
	}
	return append(fields,
		field{"revision", strconv.FormatUint(r.Revision, 10)},
		field{"epoch", strconv.FormatUint(r.Epoch, 10)},
		field{"actions", strings.Join(r.Actions, ", ")},
	)
}

func abortText(c *control.CancelInfo) string {
	if c.Abort == "" {
		return ""
	}
	return "; its agent: " + c.Abort
}

func outcomeFields(t *control.Outcome) []field {
	fields := []field{
		{"ended", timeText(t.At)},
		{"status", t.Status},
		{"summary", t.Summary},
		{"result", t.Result},
	}
	if p := t.Payload; p != nil {
		fields = append(fields, field{"payload", p.B3 + " (" + term.Bytes(p.Bytes) + ")"})
	}
	return fields
}

func labelsText(labels map[string]string) string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		s = append(s, k+"="+labels[k])
	}
	return strings.Join(s, " ")
}

func callsText(calls []control.OpenCall) string {
	var s []string
	for _, c := range calls {
		s = append(s, fmt.Sprintf("#%d %s (%s)", c.Call, c.Name, c.Safety))
	}
	return strings.Join(s, ", ")
}
