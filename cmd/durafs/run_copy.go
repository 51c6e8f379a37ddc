package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
)

// RunCopyOptions says what of a run is copied, and what the copy is.
type RunCopyOptions struct {
	RunStartOptions
	Branch, Before, Revise uint64
}

// AddFlags adds the flags of run copy.
func (o *RunCopyOptions) AddFlags(f *pflag.FlagSet) {
	f.Uint64Var(&o.Branch, "branch", 0, "copy through this call, its outcome included")
	f.Uint64Var(&o.Before, "before", 0, "copy up to this call, without it")
	f.Uint64Var(&o.Revise, "revise", 0, "copy up to this call, and go on with --message in place of what was asked last")
	o.RunStartOptions.AddFlags(f)
	f.Lookup("message").Usage = "what is asked instead, with --revise: a JSON value, or a text"
	for name, usage := range map[string]string{
		"thread": "the thread that the copy belongs to", "label": "a label of the copy, KEY=VALUE (may be repeated)",
		"target": "the target whose journal tells of the copy", "task": "what the copy is about",
	} {
		f.Lookup(name).Usage = usage + " (default: as in the source)"
	}
}

func newRunCopyCommand(a *app) *cobra.Command {
	var o RunCopyOptions
	cmd := &cobra.Command{
		Use:   "copy [RUN]",
		Short: "Begin a run with a part of another; print its id and its writer token",
		Long: `Begin a run with a part of another: its rows, its calls and what these refer
to, up to a call that is named by its number in durafs history. The source is
not touched, and may be in any phase. The copy is a run like any other; its id
and its writer token are printed as by run start.

With --thread or --label the copy has these labels and no others of the source.

A run that is named is copied as its owner; without RUN it is the one that the
environment names, as its agent.`,
		Example: "  durafs run copy RUN --branch 3\n  durafs run copy RUN --revise 3 --message 'leave the tests alone'",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runRunCopy(cmd, a, &o, args) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRunCopy(cmd *cobra.Command, a *app, o *RunCopyOptions, args []string) error {
	r, err := a.copyRequest(cmd, o)
	if err != nil {
		return err
	}
	var c *control.Client
	if len(args) == 1 {
		c, err = o.client()
	} else {
		if args, err = a.runArgs(cmd, args, 1); err == nil {
			c, err = a.writer(&WriterOption{o.SocketOption})
		}
	}
	if err != nil {
		return err
	}
	s, err := c.Copy(cmd.Context(), args[0], r)
	if err != nil {
		return err
	}
	return a.printStarted(s, o.JSON)
}

func (a *app) copyRequest(cmd *cobra.Command, o *RunCopyOptions) (r control.CopyRequest, err error) {
	if r.StartRequest, err = a.startRequest(&o.RunStartOptions); err != nil {
		return r, err
	}
	for kind, call := range map[control.CopyKind]uint64{control.CopyBranch: o.Branch, control.CopyBefore: o.Before, control.CopyRevise: o.Revise} {
		switch {
		case call == 0:
		case r.Kind != "":
			return r, badUsage(cmd, "copy up to which call? --branch, --before and --revise are one or the other")
		default:
			r.Kind, r.Call = kind, call
		}
	}
	switch {
	case r.Kind == "":
		return r, badUsage(cmd, "copy up to which call? name it with --branch, --before or --revise; calls are numbered from 1")
	case (len(r.Message) > 0) != (r.Kind == control.CopyRevise):
		return r, badUsage(cmd, "--message and --revise belong together")
	}
	return r, nil
}
