package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RunPutOptions says what a payload is.
type RunPutOptions struct {
	WriterOption
	Type string
	JSON bool
}

// AddFlags adds the flags of run put.
func (o *RunPutOptions) AddFlags(f *pflag.FlagSet) {
	o.WriterOption.AddFlags(f)
	f.StringVar(&o.Type, "type", "", "the payload's content type, such as text/html")
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

func newRunPutCommand(a *app) *cobra.Command {
	var o RunPutOptions
	cmd := &cobra.Command{
		Use:   "put [RUN] NAME FILE",
		Short: "Store a file (- for standard input) as a payload; print its BLAKE3",
		Args:  stepArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.runArgs(cmd, args, 3)
			if err != nil {
				return err
			}
			return runRunPut(cmd.Context(), a, o, args[0], args[1], args[2])
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRunPut(ctx context.Context, a *app, o RunPutOptions, id, name, file string) error {
	c, err := a.writer(&o.WriterOption)
	if err != nil {
		return err
	}
	body, closeBody, err := a.openInput(file)
	if err != nil {
		return err
	}
	defer closeBody()
	p, err := c.Put(ctx, id, name, o.Type, body)
	if err != nil {
		return fmt.Errorf("payload %s: %w", name, err)
	}
	if o.JSON {
		return a.printJSON(p)
	}
	_, err = fmt.Fprintf(a.stdout, "%s  %s\n", p.Payload.B3, p.Payload.Name)
	return err
}

// openInput opens a file, or standard input for "-".
func (a *app) openInput(file string) (io.Reader, func() error, error) {
	if file == "-" {
		return a.stdin, func() error { return nil }, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}
