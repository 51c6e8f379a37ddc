package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
)

// answerName is the payload that run settle puts an answer under before it
// settles with it, where it is longer than what travels inside of a request.
const answerName = "answer"

// RunSettleOptions says how a run ended.
type RunSettleOptions struct {
	WriterOption
	Status  string
	Summary string
	Result  string
	Payload string
	Type    string
	IfMatch string
	JSON    bool
}

// AddFlags adds the flags of run settle.
func (o *RunSettleOptions) AddFlags(f *pflag.FlagSet) {
	o.WriterOption.AddFlags(f)
	f.StringVar(&o.Status, "status", "", "success, failure or aborted (required)")
	f.StringVar(&o.Summary, "summary", "", "one line that says how it ended")
	f.StringVar(&o.Result, "result", "", "the beginning of the answer, for lists")
	f.StringVar(&o.Payload, "payload", "", "a file (- for standard input) with the complete final answer")
	f.StringVar(&o.Type, "type", "", "the answer's content type")
	f.StringVar(&o.IfMatch, "if-match", "", "settle only if the run still has this ETag")
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

func newRunSettleCommand(a *app) *cobra.Command {
	var o RunSettleOptions
	cmd := &cobra.Command{
		Use:     "settle [RUN] --status STATUS",
		Short:   "End a run, with its complete final answer",
		Example: `  durafs run settle --status success --summary "all well" --payload answer.md`,
		Args:    stepArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Status == "" {
				return badUsage(cmd, "--status is missing")
			}
			args, err := a.runArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			return runRunSettle(cmd.Context(), a, o, args[0])
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRunSettle(ctx context.Context, a *app, o RunSettleOptions, id string) error {
	c, err := a.writer(&o.WriterOption)
	if err != nil {
		return err
	}
	r := control.SettleRequest{Status: o.Status, Summary: o.Summary, Result: o.Result, IfMatch: o.IfMatch}
	if o.Payload != "" {
		if r.Payload, err = a.finalAnswer(ctx, c, o, id); err != nil {
			return err
		}
	}
	s, err := c.Settle(ctx, id, r)
	if err != nil {
		return err
	}
	if o.JSON {
		return a.printJSON(s)
	}
	if s.Replayed {
		a.note("run %s had ended so before", id)
	}
	return nil
}

// finalAnswer is the complete final answer: itself, or the name of the payload
// that it was put as.
func (a *app) finalAnswer(ctx context.Context, c *control.Client, o RunSettleOptions, id string) (*control.TerminalPayload, error) {
	body, closeBody, err := a.openInput(o.Payload)
	if err != nil {
		return nil, err
	}
	defer closeBody()
	head, err := io.ReadAll(io.LimitReader(body, inlineAnswerBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(head) <= inlineAnswerBytesMax {
		return &control.TerminalPayload{Bytes: head, ContentType: o.Type}, nil
	}
	p, err := c.Put(ctx, id, answerName, o.Type, io.MultiReader(bytes.NewReader(head), body))
	if err != nil {
		return nil, fmt.Errorf("the final answer: %w", err)
	}
	return &control.TerminalPayload{Name: p.Payload.Name, ContentType: o.Type}, nil
}
