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

// CallsPageMax bounds a page of calls.
const CallsPageMax = 1000

var errStop = errors.New("runs: stop")

// Calls folds the run's log into its tool calls, in the order of their claims:
// those numbered above after, at most limit (0: CallsPageMax). It tells of what
// is committed now and of nothing else.
func (s *Store) Calls(ref Ref, after uint64, limit int) ([]Call, error) {
	if limit <= 0 || limit > CallsPageMax {
		limit = CallsPageMax
	}
	calls := []Call{}
	at := func(call uint64) *Call {
		if n := call - after - 1; call > after && n < uint64(len(calls)) {
			return &calls[n]
		}
		return nil
	}
	err := s.walkEntries(uint32(ref), func(_ *batch, e entry) error {
		switch e.kind {
		case kindClaim:
			cl, err := parseClaim(e)
			switch c := at(cl.callNumber()); {
			case err != nil:
				return err
			case c != nil:
				c.Attempt = cl.Attempt
			case cl.Call > after && len(calls) < limit:
				calls = append(calls, cl.public())
			}
		case kindOutcome:
			o, err := parseOutcome(e)
			if err != nil {
				return err
			}
			if c := at(o.Call); c != nil {
				done := committed(o.own(), false)
				c.Result = &done
			}
		}
		return nil
	})
	return calls, err
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
