package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// RunStartOptions describes a run to be made by hand.
type RunStartOptions struct {
	SocketOption
	StartOptions
	BindingOption
	Resume string
	Task   string
	Key    string
	JSON   bool
}

// AddFlags adds the flags of run start.
func (o *RunStartOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	o.StartOptions.AddFlags(f, 0)
	o.BindingOption.AddFlags(f, "the run is bound to")
	f.StringVar(&o.Resume, "resume-request", "", "a file (- for standard input) with what whoever resumes the run needs; private")
	f.StringVar(&o.Task, "task", "", "what the run is about; its beginning is shown in lists")
	f.StringVar(&o.Key, "idempotency-key", "", "repeating the command with the same key and options gives the same run")
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

func newRunStartCommand(a *app) *cobra.Command {
	var o RunStartOptions
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start a run; print its id and its writer token",
		Long: `Start a run; print its id and its writer token, as two lines that a shell can
take into its environment:

  export $(durafs run start)

A run that is made by hand has no lease unless --lease gives it one: only a
restart of the daemon interrupts it, and durafs run attach takes it back.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRunStart(cmd.Context(), a, o) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRunStart(ctx context.Context, a *app, o RunStartOptions) error {
	r, err := a.startRequest(&o)
	if err != nil {
		return err
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	s, err := c.Start(ctx, r)
	if err != nil {
		return err
	}
	return a.printStarted(s, o.JSON)
}

// startRequest is the start that o describes.
func (a *app) startRequest(o *RunStartOptions) (control.StartRequest, error) {
	r, err := o.request()
	if err != nil {
		return r, &codeError{code: exitUsage, err: err}
	}
	r.Task, r.IdempotencyKey = o.Task, o.Key
	if r.Binding, err = o.binding(); err != nil {
		return r, &codeError{code: exitUsage, err: err}
	}
	r.ResumeRequest, err = a.readInput(o.Resume)
	return r, err
}

// printStarted prints a new run as two lines for a shell, or the whole answer.
func (a *app) printStarted(s control.Started, whole bool) error {
	if whole {
		return a.printJSON(s)
	}
	if s.Writer == "" {
		return failed(fmt.Errorf("run %s was started with this key before and has gone on since; its token is not given again", s.Record.ID),
			"start another run, with another key")
	}
	_, err := fmt.Fprintf(a.stdout, "%s=%s\n%s=%s\n", control.EnvRunID, s.Record.ID, control.EnvWriter, s.Writer)
	return err
}

// readInput reads a whole file, nil where none is named.
func (a *app) readInput(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	body, closeBody, err := a.openInput(file)
	if err != nil {
		return nil, err
	}
	defer closeBody()
	b, err := io.ReadAll(io.LimitReader(body, requestBytesMax+1))
	if err == nil && len(b) > requestBytesMax {
		err = fmt.Errorf("%s has more than %s: put it as a payload, and name that here", file, term.Bytes(requestBytesMax))
	}
	return b, err
}

// requestBytesMax bounds what travels inside of a start.
const requestBytesMax = 512 << 10
