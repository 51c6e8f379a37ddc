package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
)

// decisions collects --decide CALL=retry|close.
type decisions struct{ retry, close []uint64 }

// String is for help texts.
func (d *decisions) String() string {
	var s []string
	for _, n := range d.retry {
		s = append(s, strconv.FormatUint(n, 10)+"=retry")
	}
	for _, n := range d.close {
		s = append(s, strconv.FormatUint(n, 10)+"=close")
	}
	return strings.Join(s, ",")
}

// Set takes one decision, or several with commas between them.
func (d *decisions) Set(s string) error {
	for one := range strings.SplitSeq(s, ",") {
		call, what, _ := strings.Cut(strings.TrimPrefix(one, "#"), "=")
		n, err := strconv.ParseUint(call, 10, 64)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not CALL=retry or CALL=close: a call has a number, which durafs show tells", one)
		}
		switch what {
		case "retry":
			d.retry = append(d.retry, n)
		case "close":
			d.close = append(d.close, n)
		default:
			return fmt.Errorf("%q does not say retry or close", one)
		}
	}
	return nil
}

// Type is for help texts.
func (d *decisions) Type() string { return "CALL=retry|close" }

// PrepareOptions say what an owner decides when a run is resumed.
type PrepareOptions struct {
	Decide  decisions
	Force   bool
	IfMatch string
}

// AddFlags adds the flags of an owner's decision.
func (o *PrepareOptions) AddFlags(f *pflag.FlagSet) {
	f.Var(&o.Decide, "decide", "what becomes of an open call: it may run again (retry), or is over, nobody knows how (close); may be repeated")
	f.BoolVar(&o.Force, "force", false, "do not wait for the run's own agent to come back: take the run from it")
	f.StringVar(&o.IfMatch, "if-match", "", "resume only if the run still has this ETag")
}

// request is the prepare of the record as it is, or as it was decided on.
func (o *PrepareOptions) prepareRequest(tag string) control.PrepareRequest {
	if o.IfMatch != "" {
		tag = o.IfMatch
	}
	return control.PrepareRequest{IfMatch: tag, Retry: o.Decide.retry, Close: o.Decide.close, Force: o.Force}
}

// giveUpTimeout bounds the telling that a dispatch came to nothing.
const giveUpTimeout = 5 * time.Second

// detailBytesMax bounds what is told of it.
const detailBytesMax = 512

// boundedText is as much of a text as a detail may have.
func boundedText(s string) string {
	if len(s) > detailBytesMax {
		s = strings.ToValidUTF8(s[:detailBytesMax], "")
	}
	return s
}

// RunResumeOptions says how a run is resumed.
type RunResumeOptions struct {
	SocketOption
	BindingOption
	PrepareOptions
	Allow         bool
	Prepare, Fail bool
	Activate      bool
	Detail        string
	JSON          bool
}

// AddFlags adds the flags of run resume.
func (o *RunResumeOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	o.BindingOption.AddFlags(f, "is on offer (default: the run's own)")
	o.PrepareOptions.AddFlags(f)
	f.BoolVar(&o.Allow, "allow-binding", false, "let the run go on with the provider on offer, which is not its own")
	f.BoolVar(&o.Prepare, "prepare", false, "only prepare the run, and print the token for one activation")
	f.BoolVar(&o.Activate, "activate", false, "only activate the run, with the token in $"+control.EnvResume)
	f.BoolVar(&o.Fail, "fail", false, "give up what was prepared, with the token in $"+control.EnvResume+" or as the owner")
	f.StringVar(&o.Detail, "detail", "", "why it is given up, a sentence")
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

func newRunResumeCommand(a *app) *cobra.Command {
	var o RunResumeOptions
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Resume a paused run; print its id and its new writer token",
		Long: `Resume a paused run: an owner prepares it, and then it is activated under its
old id. Two lines are printed that a shell can take into its environment:

  export $(durafs run resume RUN)

For a lease after its agent was lost only that agent may take the run back, by
durafs run attach; --force does not wait for it. A run that was lost behind a
call that may have had an effect (paused-side-effect-uncertain) needs a word on
each open call, which durafs show lists:

  durafs run resume RUN --decide 3=retry --decide 4=close

Programs that dispatch runs do the two steps apart: --prepare prints the token
for one activation within a minute, and --activate uses it. A command that
durafs exec ran is resumed by durafs exec --resume RUN.`,
		Args: stepArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.runArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			if n := countTrue(o.Prepare, o.Activate, o.Fail); n > 1 {
				return badUsage(cmd, "--prepare, --activate and --fail exclude each other")
			}
			offered, err := o.binding()
			if err != nil {
				return usageError(cmd, err)
			}
			if o.Allow && offered == nil {
				return badUsage(cmd, "--allow-binding goes with --provider")
			}
			return runRunResume(cmd.Context(), a, o, args[0], offered)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func countTrue(all ...bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

func runRunResume(ctx context.Context, a *app, o RunResumeOptions, id string, offered *control.Binding) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	token := a.getenv(control.EnvResume)
	switch {
	case o.Fail:
		rec, err := c.FailDispatch(ctx, id, token, o.Detail)
		return a.printRecord(rec, o.JSON, err)
	case o.Activate && token == "":
		return &codeError{
			code: exitUsage, err: fmt.Errorf("no resume token in $%s", control.EnvResume),
			next: "durafs run resume RUN --prepare prints it",
		}
	case !o.Activate:
		p, err := a.prepare(ctx, c, o, id, &offered)
		if err != nil {
			return err
		}
		if o.Prepare {
			return a.printToken(o.JSON, p, id, control.EnvResume, p.Resume)
		}
		token = p.Resume
	}
	got, err := c.Activate(ctx, id, token, offered)
	if err != nil {
		if !o.Activate {
			a.giveUp(c, id, token, err)
		}
		return err
	}
	return a.printToken(o.JSON, got, id, control.EnvWriter, got.Writer)
}

// prepare prepares a run, and finds what is on offer where nothing was said of
// that: its own provider.
func (a *app) prepare(ctx context.Context, c *control.Client, o RunResumeOptions, id string, offered **control.Binding) (control.Prepared, error) {
	rec, tag, err := c.Get(ctx, id)
	if err != nil {
		return control.Prepared{}, err
	}
	r := o.prepareRequest(tag)
	r.Binding = *offered
	if o.Allow {
		r.AllowBinding = *offered
	}
	if *offered == nil {
		*offered = rec.Binding
	}
	return c.Prepare(ctx, id, r)
}

// giveUp gives up what was prepared and could not be activated. Where the
// activation has paused the run itself there is nothing to give up.
func (a *app) giveUp(c *control.Client, id, token string, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), giveUpTimeout)
	defer cancel()
	_, err := c.FailDispatch(ctx, id, token, boundedText(oneLine(why)))
	if _, refused := errors.AsType[*control.Problem](err); err != nil && !refused {
		a.note("run %s stays prepared for a minute: %v", id, err)
	}
}

// printToken prints what a shell takes into its environment.
func (a *app) printToken(asJSON bool, whole any, id, name, token string) error {
	if asJSON {
		return a.printJSON(whole)
	}
	_, err := fmt.Fprintf(a.stdout, "%s=%s\n%s=%s\n", control.EnvRunID, id, name, token)
	return err
}

// RunRequestOptions are the flags of run request.
type RunRequestOptions struct {
	SocketOption
	JSON bool
}

func newRunRequestCommand(a *app) *cobra.Command {
	var o RunRequestOptions
	cmd := &cobra.Command{
		Use:   "request [RUN]",
		Short: "Print what a run was started with for whoever continues it",
		Args:  stepArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.runArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			return runRunRequest(cmd.Context(), a, o, args[0])
		},
	}
	o.SocketOption.AddFlags(cmd.Flags())
	addJSONFlag(cmd.Flags(), &o.JSON, "print it in base64, one JSON object")
	return cmd
}

func runRunRequest(ctx context.Context, a *app, o RunRequestOptions, id string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	token := a.getenv(control.EnvResume)
	if writer := a.getenv(control.EnvWriter); token == "" && writer != "" {
		c = c.WithWriter(writer)
	}
	body, err := c.ResumeRequest(ctx, id, token)
	if err != nil {
		return err
	}
	defer body.Close()
	if !o.JSON {
		_, err = io.Copy(a.stdout, body)
		return err
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return a.printJSON(struct {
		Run   string `json:"run"`
		Bytes []byte `json:"b64"`
	}{id, b})
}
