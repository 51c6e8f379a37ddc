package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"durafs/wal"
)

// Bounds of tool calls.
const (
	ToolNameBytesMax = 128
	ArgsBytesMax     = 256 << 10 // inline; larger ones are put as a payload
	OpenCallsMax     = 256       // of one run at the same time
	CallsMax         = 1 << 31   // of one run
	// rowArgsBytesMax is how much of arguments or an outcome stands in the log
	// itself; beyond it the row has their digest.
	rowArgsBytesMax = 8 << 10
)

// ClaimRequest says which tool is about to run.
type ClaimRequest struct {
	// CallID is the agent's own label of the call, unique in the run for ever.
	CallID string
	Name   string
	// Safety is the declared class as JSON; whatever is odd counts as unknown.
	Safety json.RawMessage
	// Args are the arguments inline, any JSON value; or ArgsPayload names the
	// payload that holds them; or there are none.
	Args        []byte
	ArgsPayload string
	argsB3      string // of that payload
	// IdempotencyKey and BodyHash make a repeated request answer the first, as
	// long as the call is open and in its epoch.
	IdempotencyKey string
	BodyHash       [32]byte
}

// Claimed answers a claim: it is durable, and the tool may run.
type Claimed struct {
	Call  uint64 `json:"call"`
	Index uint64 `json:"index"`
	// Key is the same for every run of this call, in every epoch: what a tool
	// gives to others as idempotency key.
	Key      string `json:"idempotency_key"`
	Attempt  uint64 `json:"attempt"`
	Safety   Safety `json:"safety"` // as it counts
	Replayed bool   `json:"replayed,omitempty"`
}

// openCall is a call without an outcome, as the record keeps it.
type openCall struct {
	Call    uint64 `json:"call"`
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Index   uint64 `json:"index"`
	Safety  Safety `json:"safety"`
	Attempt uint64 `json:"attempt"`
	Epoch   uint64 `json:"epoch"`           // in which it was claimed, or run again, last
	Retry   bool   `json:"retry,omitempty"` // an owner lets it run again
	Key     string `json:"key,omitempty"`   // hash of the request's key and body
}

func (o *openCall) public() OpenCall {
	return OpenCall{Call: o.Call, CallID: o.CallID, Name: o.Name, Index: o.Index, Safety: string(o.Safety), Attempt: o.Attempt}
}

func (o *openCall) claimed(runID string) Claimed {
	return Claimed{Call: o.Call, Index: o.Index, Key: callKey(runID, o.Name, o.Index), Attempt: o.Attempt, Safety: o.Safety}
}

func callKey(runID, name string, index uint64) string {
	return runID + ":" + name + ":" + strconv.FormatUint(index, 10)
}

// Claim records a tool call before its effect. Unless it succeeds the tool must
// not run. A label that was claimed before is refused, in whatever epoch, with
// what became of that call, and what is committed if it has ended. Needs the
// writer token.
func (s *Store) Claim(ctx context.Context, c Caller, id string, r ClaimRequest) (Claimed, error) {
	if err := checkClaim(&r); err != nil {
		return Claimed{}, err
	}
	kept := lateWrite{What: "claim", Name: r.Name, Text: r.CallID}
	num, epoch, err := s.gate(ctx, c, id, evWrite)
	if err != nil {
		return Claimed{}, s.keepLate(ctx, num, epoch, err, kept)
	}
	if r.ArgsPayload != "" {
		f, err := s.showPayload(Ref(num), r.ArgsPayload)
		if err != nil {
			return Claimed{}, err
		}
		r.argsB3 = f.ref.ID.String()
	}
	var got Claimed
	err = retry(ctx, func() (done bool, err error) {
		if err := s.needTools(ctx, num); err != nil {
			return false, err
		}
		got, done, err = s.submitClaim(ctx, c, num, epoch, &r)
		return done, err
	})
	if CodeOf(err) == CallExists {
		err = s.withCommitted(err, num)
	}
	return got, s.keepLate(ctx, num, epoch, s.denied(num, err), kept)
}

func checkClaim(r *ClaimRequest) error {
	if err := badName("call_id", r.CallID, badKey(r.CallID)); err != nil {
		return err
	}
	if err := badName("tool name", r.Name, badToolName(r.Name)); err != nil {
		return err
	}
	if len(r.Args) > ArgsBytesMax {
		return tooLarge("args", int64(len(r.Args)), ArgsBytesMax)
	}
	if r.Args != nil && (!json.Valid(r.Args) || !utf8.Valid(r.Args)) {
		return fieldRefusal(RowInvalid, "args", "the arguments are not valid JSON")
	}
	if r.Args != nil && r.ArgsPayload != "" {
		return fieldRefusal(BadName, "args", "the request has arguments and names a payload of them")
	}
	if r.IdempotencyKey != "" {
		return badName("Idempotency-Key", r.IdempotencyKey, badKey(r.IdempotencyKey))
	}
	return nil
}

// badToolName is the rule for the names of tools: it says what is wrong, or "".
func badToolName(name string) string {
	if name == "" || len(name) > ToolNameBytesMax {
		return "is empty, or longer than 128 bytes"
	}
	for i := range len(name) {
		c := name[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '.' || c == '-') {
			return "has other characters than A-Z a-z 0-9 _ . -"
		}
	}
	return ""
}

// keyOf tells requests of one key and body from others; "" without a key.
func keyOf(key string, body [32]byte) string {
	if key == "" {
		return ""
	}
	sum := blake3.Sum256(append(body[:], key...))
	return fmt.Sprintf("%x", sum[:16])
}

// submitClaim accepts a claim. Not done: the run has changed meanwhile.
func (s *Store) submitClaim(ctx context.Context, c Caller, num uint32, epoch uint64, r *ClaimRequest) (got Claimed, done bool, err error) {
	was, err := s.current(num)
	if err != nil {
		return got, false, err
	}
	s.mu.RLock()
	l := s.view(num)
	var cl *claim
	if l != nil && l.tools != nil {
		cl = newClaim(l.tools, r, s.index.settings.classOf(r.Name))
	}
	s.mu.RUnlock()
	if cl == nil { // it is not active any more: only the fence is left to ask
		return got, true, s.do(ctx, wal.Reserved, func(uint64) wal.Decision { return s.refusedNow(num, c, epoch, evWrite) })
	}
	rec, open := was.withClaim(cl, epoch, keyOf(r.IdempotencyKey, r.BodyHash))
	b := newBatch(num, rec.entry(num), cl.entry(num), callRow(num, cl, r.Args))
	done = true
	err = s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evWrite); r != nil {
			return l.answer(r)
		}
		if l.revision != was.revision || l.tools == nil {
			done = false
			return wal.Decision{}
		}
		if call := l.tools.ids[callHash(num, r.CallID)]; call != 0 {
			if o := was.open(call); o != nil && o.Epoch == epoch && o.Key != "" && o.Key == open.Key {
				got = o.claimed(was.ID)
				got.Replayed = true
				return l.answer(nil)
			}
			return l.answer(callExists(was, call, r.CallID))
		}
		if r := roomForCall(was, l.tools); r != nil {
			return l.answer(r)
		}
		if r := s.noRoom(l, "call", b); r != nil {
			return l.answer(r)
		}
		got = open.claimed(was.ID)
		return s.accept(l, lsn, b)
	})
	return got, done, err
}

// refusedNow is the decision of a request that has nothing left but its
// refusal; mu is held.
func (s *Store) refusedNow(num uint32, c Caller, epoch uint64, ev event) wal.Decision {
	l := s.view(num)
	if r := s.fence(l, c, epoch, ev); r != nil {
		return l.answer(r)
	}
	return l.answer(wal.ErrBusy) // it became active again in between
}

func newClaim(t *tools, r *ClaimRequest, class Safety) *claim {
	cl := &claim{
		Call: t.last + 1, Index: t.counts[r.Name], CallID: r.CallID, Name: r.Name, Attempt: 1,
		Safety: ParseSafety(r.Safety).Worst(class), ArgsPayload: r.ArgsPayload, ArgsB3: r.argsB3, args: r.Args,
	}
	if r.Args != nil {
		cl.ArgsB3 = hexB3(r.Args)
	}
	return cl
}

// withClaim is the record after a claim, and the call in it.
func (rec *record) withClaim(cl *claim, epoch uint64, key string) (*record, *openCall) {
	n := rec.next().progressed()
	n.Class = string(Safety(rec.Class).Worst(cl.Safety))
	n.OpenCalls = append(append([]openCall(nil), rec.OpenCalls...), openCall{
		Call: cl.Call, CallID: cl.CallID, Name: cl.Name, Index: cl.Index, Safety: cl.Safety, Attempt: 1, Epoch: epoch, Key: key,
	})
	return n, &n.OpenCalls[len(n.OpenCalls)-1]
}

// progressed counts what may have had an effect; dispatches are counted from
// the last progress on.
func (rec *record) progressed() *record {
	rec.Progress++
	rec.Resume.Attempt = 0
	return rec
}

// open finds an open call, nil if that number has an outcome or does not exist.
func (rec *record) open(call uint64) *openCall {
	for i := range rec.OpenCalls {
		if rec.OpenCalls[i].Call == call {
			return &rec.OpenCalls[i]
		}
	}
	return nil
}

func roomForCall(rec *record, t *tools) *Refusal {
	if len(rec.OpenCalls) >= OpenCallsMax {
		r := refuse(TooManyCalls, "the run has %d open calls, and the limit is %d", len(rec.OpenCalls), OpenCallsMax)
		r.Size, r.Limit = int64(len(rec.OpenCalls)), OpenCallsMax
		return r
	}
	if t.last >= CallsMax {
		r := refuse(RunFull, "the run has %d calls, and the limit is %d", t.last, CallsMax)
		r.Size, r.Limit = int64(t.last), CallsMax
		return r
	}
	return nil
}

func callExists(rec *record, call uint64, callID string) *Refusal {
	state := "settled"
	if rec.open(call) != nil {
		state = "open"
	}
	r := refuse(CallExists, "the call_id %s was claimed before, as call %d, which is %s", quote(callID), call, state)
	r.Field, r.Call, r.State = "call_id", call, state
	return r
}

// callRow is the log's row of a claim.
func callRow(num uint32, cl *claim, args []byte) entry {
	var inline any
	if args != nil && len(args) <= rowArgsBytesMax {
		inline = json.RawMessage(args)
	}
	return ownRow(num, "type", "tool-call", "call", cl.Call, "call_id", cl.CallID, "name", cl.Name, "index", cl.Index,
		"safety", cl.Safety, "attempt", cl.Attempt, "args", inline, "args_b3", cl.ArgsB3, "args_payload", cl.ArgsPayload)
}
