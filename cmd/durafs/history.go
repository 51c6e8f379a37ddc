package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// HistoryOptions says what of a history to print, and how.
type HistoryOptions struct {
	SocketOption
	Upto        uint64
	Vision      bool
	ImageBudget int64
	JSON        bool
}

// AddFlags adds the flags of history.
func (o *HistoryOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.Uint64Var(&o.Upto, "upto", 0, "as it was when the log ended with this row")
	f.BoolVar(&o.Vision, "vision", false, "put the images' bytes into the lines; needs --json")
	f.Int64Var(&o.ImageBudget, "image-budget", 0, "so many bytes of images (default 16 MiB)")
	addJSONFlag(f, &o.JSON, "print the history itself, one JSON object a line")
}

func newHistoryCommand(a *app) *cobra.Command {
	var o HistoryOptions
	cmd := &cobra.Command{
		Use:   "history RUN",
		Short: "Print what a model is shown of a run's tool calls",
		Long: `Print what a model is shown of a run's tool calls: each call and its result,
in the order in which they were claimed. A call of which nobody told what
became of it has a result that says so.`,
		GroupID: groupRead,
		Example: "  durafs history RUN\n  durafs history --json --vision RUN | jq -c .images",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.Vision && !o.JSON:
				return badUsage(cmd, "--vision needs --json: images are bytes")
			case o.ImageBudget < 0 || o.ImageBudget > 0 && !o.Vision:
				return badUsage(cmd, "--image-budget is a number of bytes, and needs --vision")
			}
			return runHistory(cmd.Context(), a, o, args[0])
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runHistory(ctx context.Context, a *app, o HistoryOptions, id string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	h, err := c.History(ctx, id, control.HistoryQuery{Upto: o.Upto, Materialize: o.Vision, Vision: o.Vision, ImageBudget: o.ImageBudget})
	if err != nil {
		return fmt.Errorf("history of run %s: %w", id, err)
	}
	defer h.Close()
	if o.JSON {
		_, err = io.Copy(a.stdout, h)
	} else {
		err = a.printTurns(h)
	}
	if err != nil {
		return fmt.Errorf("history of run %s: %w", id, err)
	}
	return nil
}

// turn is a line of a history, as far as people are shown it.
type turn struct {
	Call        uint64
	Name        string
	Arguments   json.RawMessage
	ArgumentsB3 string `json:"arguments_b3"`
	Result      struct {
		Status string
		Parts  []struct {
			Kind, Text string
			Value      json.RawMessage
			MediaType  string `json:"media_type"`
			Ref        struct {
				Name  string
				Bytes int64
			}
		}
	}
}

// printTurns prints a history for people.
func (a *app) printTurns(h io.Reader) error {
	in, out := bufio.NewReader(h), bufio.NewWriter(a.stdout)
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return out.Flush()
		case err != nil:
			return fmt.Errorf("it is cut short: %w", err)
		}
		var t turn
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		t.print(out)
	}
}

func (t *turn) print(out *bufio.Writer) {
	args := string(t.Arguments)
	if args == "" && t.ArgumentsB3 != "" {
		args = "(arguments " + t.ArgumentsB3 + ")"
	}
	fmt.Fprintf(out, "#%d %s %s\n", t.Call, term.Safe(t.Name), term.Safe(args))
	if t.Result.Status != "ok" {
		fmt.Fprintf(out, "  %s\n", term.Safe(t.Result.Status))
	}
	for _, p := range t.Result.Parts {
		text := p.Text
		switch p.Kind {
		case "json":
			text = string(p.Value)
		case "image":
			text = fmt.Sprintf("[image %s, %s: %s]", p.MediaType, term.Bytes(p.Ref.Bytes), p.Ref.Name)
		}
		for line := range strings.Lines(text) {
			fmt.Fprintf(out, "  | %s\n", term.Safe(strings.TrimSuffix(line, "\n")))
		}
	}
}
