package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"durafs/control"
)

// turn is a tool call as the model sees it: what it asked for, and what it was
// shown of the result.
type turn struct {
	Call      uint64          `json:"call"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
}

type agent struct {
	run   *control.Run
	dir   string
	turns []turn
}

// recall reads what has happened. A call that was open when its agent died is
// left out: the model asks for it again, and the store says whether it may run.
func (a *agent) recall(ctx context.Context) error {
	open := map[uint64]bool{}
	for _, o := range a.run.Record().OpenCalls {
		open[o.Call] = true
	}
	h, err := a.run.Client().History(ctx, a.run.ID(), control.HistoryQuery{})
	if err != nil {
		return err
	}
	defer h.Close()
	for d := json.NewDecoder(h); ; {
		var t turn
		err := d.Decode(&t)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case !open[t.Call]:
			a.turns = append(a.turns, t)
		}
		step()
	}
}

// work asks the model and does what it says, until it has the answer.
func (a *agent) work(ctx context.Context) error {
	for {
		ask, err := next(a.turns)
		if err != nil {
			return err
		}
		if ask.answer != "" {
			return a.finish(ctx, ask.answer)
		}
		if err := a.do(ctx, ask); err != nil {
			return err
		}
		step()
	}
}

// do runs one tool. The call's label is its place in the conversation: the same
// in every life.
func (a *agent) do(ctx context.Context, ask ask) error {
	tool, ok := tools[ask.name]
	if !ok {
		return fmt.Errorf("the model asks for a tool %q that is not there", ask.name)
	}
	call := control.ToolCall{ID: "turn-" + strconv.Itoa(len(a.turns)), Name: ask.name, Args: ask.args}
	var shown []control.Part
	done, err := a.run.Tool(ctx, call, tool.safety,
		func(_ context.Context, c control.Claimed) (v any, err error) {
			step()
			v, shown, err = tool.run(a.dir, ask.args, c.Key)
			step()
			return v, err
		},
		func(_ context.Context, outcome json.RawMessage) ([]byte, error) {
			step()
			return show(outcome, shown)
		})
	if err != nil {
		return err
	}
	step()
	a.turns = append(a.turns, turn{Name: ask.name, Arguments: ask.args, Result: done.Projection})
	return nil
}

// show makes what the model sees of a result: the tool's parts, or its error.
func show(outcome json.RawMessage, parts []control.Part) ([]byte, error) {
	var o struct{ Status, Error string }
	if err := json.Unmarshal(outcome, &o); err != nil {
		return nil, err
	}
	if o.Error != "" {
		return control.Candidate("error", control.Text(o.Error))
	}
	return control.Candidate("ok", parts...)
}

// finish settles the run with the answer.
func (a *agent) finish(ctx context.Context, answer string) error {
	step()
	_, err := a.run.Settle(ctx, control.SettleRequest{
		Status: control.Success, Summary: "reported",
		Payload: &control.TerminalPayload{Text: &answer, ContentType: "text/markdown"},
	})
	step()
	if control.Code(err) == control.CodeFinished {
		err = errors.New("the run was ended by somebody else")
	}
	return err
}
