package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
)

// Effect runs a tool. ctx ends with the caller's, and when the owner cancels
// the run; c has the idempotency key to hand to whatever has the effect. What
// it returns is recorded as JSON, an error as one: a tool that failed has
// ended, and that is told.
type Effect func(ctx context.Context, c Claimed) (any, error)

// Tool runs a tool: it claims the call (durable before the effect), runs
// effect, records what became of it together with what a model is shown of it,
// and returns what is committed. Show a model the Projection of that, and never
// what the tool or the projector returned.
//
// effect runs at most once in this process for a call, whatever becomes of the
// daemon meanwhile: when that was restarted the handle attaches, and sends the
// outcome again. A call that has ended before, in this or an earlier life of
// the agent, is answered with what is committed, Replayed, and effect does not
// run. One that was open when an earlier agent was lost runs again, with the
// same idempotency key, if it is read-only or idempotent, or the owner said so;
// else the error matches ErrOwnerDecides, and effect does not run.
//
// The outcome is an object: status ("ok", "error"), value, error. A value over
// 64 KiB is put as a payload of its own, which the outcome names. projector
// makes the candidate of it (see Candidate); nil shows a string as text, and
// else JSON. It cannot strand the outcome: when it panics, fails, is not done
// within the client's ProjectionTimeout, or ctx ends, the outcome is committed
// with the sentinel projection, which says that the result cannot be shown.
//
// When ctx ends while effect runs the outcome is recorded all the same: Tool
// returns once effect has, and the daemon has answered or was away for the
// client's Patience. When effect panics that is recorded too, and the panic
// goes on. An outcome that could not be recorded is the error, and stops the
// run for this handle, see ErrUnsettled.
func (r *Run) Tool(ctx context.Context, call ToolCall, safety string, effect Effect, projector Projector) (Committed, error) {
	k, err := r.Claim(ctx, call, safety)
	if done := endedBefore(err); done != nil {
		return *done, nil
	}
	if err != nil {
		return Committed{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.wanted, cancel)()
	res := k.perform(ctx, effect)
	if projector == nil {
		projector = func(context.Context, json.RawMessage) ([]byte, error) { return res.show() }
	}
	return k.Settle(ctx, res.outcome(), projector)
}

// unknownResult is what a history shows of a call that was closed without its
// outcome.
const unknownResult = `{"status":"unknown","synthetic":true}`

// endedBefore is what is committed of a call that a claim found ended.
func endedBefore(err error) *Committed {
	var p *Problem
	if !errors.As(err, &p) || p.Code != CodeCallExists || p.State != CallSettled || p.Committed == nil {
		return nil
	}
	done := *p.Committed
	done.Replayed = true
	if len(done.Projection) == 0 { // nobody told what became of it
		done.Projection = json.RawMessage(unknownResult)
	}
	return &done
}

// perform runs the tool. If it panics the call ends with that.
func (k *Call) perform(ctx context.Context, effect Effect) *toolResult {
	returned := false
	defer func() {
		if !returned {
			res := &toolResult{err: errors.New("the tool panicked")}
			k.Settle(ctx, res.outcome(), func(context.Context, json.RawMessage) ([]byte, error) { return res.show() })
		}
	}()
	v, err := effect(ctx, k.Claimed)
	returned = true
	res := newToolResult(v, err)
	if len(res.value) > valueBytesMax {
		res.keep(ctx, k)
	}
	return res
}

const (
	// valueBytesMax is the longest value that stands in an outcome itself.
	valueBytesMax = 64 << 10
	// shownBytesMax is how much of a text is shown where no projector is given.
	shownBytesMax = 64 << 10
)

// toolResult is what a tool returned.
type toolResult struct {
	v       any
	err     error
	value   json.RawMessage // v
	payload *PayloadInfo    // that holds the value, where it is large
	lost    string          // why a large value could not be kept
}

func newToolResult(v any, err error) *toolResult {
	res := &toolResult{v: v, err: err}
	if v == nil {
		return res
	}
	value, jsonErr := plainJSON(v)
	if jsonErr != nil {
		res.v, res.err = nil, errors.Join(err, jsonErr)
		return res
	}
	res.value = value
	return res
}

// keep puts a large value as a payload. That it cannot be kept, the disk being
// full, say, is no reason not to tell that the tool has run.
func (res *toolResult) keep(ctx context.Context, k *Call) {
	body, contentType := []byte(res.value), TypeJSON
	switch v := res.v.(type) {
	case string:
		body, contentType = []byte(v), "text/plain; charset=utf-8"
	case []byte:
		body, contentType = v, "application/octet-stream"
	}
	name := "result-" + strconv.FormatUint(k.Call, 10) + "-" + strconv.FormatUint(k.Attempt, 10)
	ctx, cancel := k.r.outlasting(ctx)
	defer cancel()
	var p Put
	err := k.r.steady(ctx, func(ctx context.Context) (err error) {
		p, err = k.r.c.PutResult(ctx, k.r.id, name, contentType, bytes.NewReader(body))
		return err
	})
	if err != nil {
		res.lost = err.Error()
		return
	}
	res.payload = &p.Payload
}

// outcome is the result as it is recorded.
func (res *toolResult) outcome() json.RawMessage {
	o := struct {
		Status  string          `json:"status"`
		Error   string          `json:"error,omitempty"`
		Value   json.RawMessage `json:"value,omitempty"`
		Payload *PayloadInfo    `json:"payload,omitempty"`
		Lost    string          `json:"value_lost,omitempty"`
	}{Status: "ok", Value: res.value, Payload: res.payload, Lost: res.lost}
	if res.err != nil {
		o.Status, o.Error = "error", cut(res.err.Error(), valueBytesMax)
	}
	if len(o.Value) > valueBytesMax {
		o.Value = nil
	}
	b, err := plainJSON(o)
	if err != nil { // its own value was made by the same encoder
		panic(err)
	}
	return b
}

// show is what a model sees of the result where nobody says otherwise.
func (res *toolResult) show() ([]byte, error) {
	status, parts := "ok", []Part(nil)
	if res.err != nil {
		status = "error"
		parts = append(parts, Text(cut(res.err.Error(), shownBytesMax)))
	}
	switch v := res.v.(type) {
	case nil:
	case string:
		parts = append(parts, Text(cut(v, shownBytesMax)))
	default:
		if len(res.value) > shownBytesMax {
			parts = append(parts, Text(cut(string(res.value), shownBytesMax)))
		} else {
			parts = append(parts, JSON(res.value))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, Text("done"))
	}
	return Candidate(status, parts...)
}
