package runs

import (
	"encoding/json"
	"errors"
	"strconv"
)

// Call is a tool call as the log tells of it.
type Call struct {
	Call        uint64          `json:"call"`
	CallID      string          `json:"call_id"`
	Name        string          `json:"name"`
	Index       uint64          `json:"index"`
	Safety      Safety          `json:"safety"`
	Attempt     uint64          `json:"attempt"`
	Args        json.RawMessage `json:"args,omitempty"`
	ArgsB3      string          `json:"args_b3,omitempty"`
	ArgsPayload string          `json:"args_payload,omitempty"`
	// Result is what is committed of its end; nil as long as it is open.
	Result *Committed `json:"result,omitempty"`
}

// Bounds of a page of calls; one call may be longer than CallsPageBytesMax by
// itself.
const (
	CallsPageMax      = 1000
	CallsPageBytesMax = 4 << 20
)

var errStop = errors.New("runs: stop")

// Calls folds the run's log into its tool calls, in the order of their claims:
// those numbered above after, at most limit (0: CallsPageMax), fewer where they
// are long; behind the last one there is an empty page. It tells of what is
// committed now and of nothing else.
func (s *Store) Calls(ref Ref, after uint64, limit int) ([]Call, error) {
	calls, _, err := s.callsPage(ref, after, limit)
	return calls, err
}

// callsPage is Calls that tells whether there are more.
func (s *Store) callsPage(ref Ref, after uint64, limit int) (calls []Call, more bool, err error) {
	if limit <= 0 || limit > CallsPageMax {
		limit = CallsPageMax
	}
	calls = []Call{}
	at := func(call uint64) *Call {
		if n := call - after - 1; call > after && n < uint64(len(calls)) {
			return &calls[n]
		}
		return nil
	}
	bytes := 0
	grown := func(by int) {
		for bytes += by; bytes > CallsPageBytesMax && len(calls) > 1; more = true {
			last := len(calls) - 1
			bytes -= calls[last].bytes()
			calls = calls[:last]
		}
	}
	err = s.walkEntries(uint32(ref), func(_ *batch, e entry) error {
		switch e.kind {
		case kindClaim:
			cl, err := parseClaim(e)
			switch c := at(cl.callNumber()); {
			case err != nil:
				return err
			case c != nil:
				c.Attempt = cl.Attempt
			case cl.Call > after && len(calls) < limit && !more:
				calls = append(calls, cl.public())
				grown(calls[len(calls)-1].bytes())
			case cl.Call > after:
				more = true
			}
		case kindOutcome:
			o, err := parseOutcome(e)
			if err != nil {
				return err
			}
			if c := at(o.Call); c != nil {
				done := committed(o.own(), false)
				c.Result = &done
				grown(done.bytes())
			}
		}
		return nil
	})
	return calls, more, err
}

// bytes is about what a call takes in memory and in an answer.
func (c *Call) bytes() int {
	return 200 + len(c.CallID) + len(c.Name) + len(c.Args) + len(c.ArgsPayload) + c.Result.bytes()
}

func (c *Committed) bytes() int {
	if c == nil {
		return 0
	}
	return len(c.Outcome) + len(c.Projection)
}

func (cl *claim) callNumber() uint64 {
	if cl == nil {
		return 0
	}
	return cl.Call
}

func (cl *claim) public() Call {
	return Call{
		Call: cl.Call, CallID: cl.CallID, Name: cl.Name, Index: cl.Index, Safety: cl.Safety, Attempt: cl.Attempt,
		Args: append(json.RawMessage(nil), cl.args...), ArgsB3: cl.ArgsB3, ArgsPayload: cl.ArgsPayload,
	}
}

// own copies what still lies in a frame's buffer.
func (o *outcome) own() *outcome {
	c := *o
	c.text = append([]byte(nil), o.text...)
	if o.projection != nil {
		c.projection = append([]byte(nil), o.projection...)
	}
	return &c
}

// readOutcome finds the committed outcome of a call, nil if it has none.
func (s *Store) readOutcome(num uint32, call uint64) (*outcome, error) {
	var found *outcome
	err := s.walkEntries(num, func(_ *batch, e entry) error {
		if e.kind != kindOutcome {
			return nil
		}
		o, err := parseOutcome(e)
		if err != nil {
			return err
		}
		if o.Call == call {
			found = o.own()
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return found, err
}

func uintText(n uint64) string { return strconv.FormatUint(n, 10) }
