package runs

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"github.com/zeebo/blake3"
)

// claim is the body of a claim entry, T1: what is known of a tool call before
// it may have an effect. A re-run of an open call is a claim of the same number
// with the next attempt.
//
//	head    4 + length and JSON of these fields
//	args        the arguments as the agent wrote them, if they are inline
type claim struct {
	Call    uint64 `json:"call"`  // number in the run, from 1
	Index   uint64 `json:"index"` // number within its tool, from 0
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Safety  Safety `json:"safety"`
	Attempt uint64 `json:"attempt"`
	// ArgsB3 is the BLAKE3 of the arguments, and ArgsPayload names the payload
	// that holds them where they are not inline.
	ArgsB3      string `json:"args_b3,omitempty"`
	ArgsPayload string `json:"args_payload,omitempty"`

	args []byte
}

func (cl *claim) entry(run uint32) entry {
	return entry{kind: kindClaim, run: run, body: headed(cl, cl.args), claim: cl}
}

func parseClaim(e entry) (*claim, error) {
	cl := new(claim)
	rest, err := unhead(e.body, cl)
	if err != nil || cl.Call == 0 || cl.Name == "" || cl.CallID == "" || cl.Attempt == 0 || cl.Safety.known() != cl.Safety {
		return nil, badBatch("a claim of it is not as it should be")
	}
	cl.args = rest
	return cl, nil
}

// outcome is the body of an outcome entry, T2: what became of a call, and the
// one form in which its result is shown to a model.
//
//	head       4 + length and JSON of these fields
//	outcome    4 + length and the outcome as it was received, a JSON object
//	projection     its durable form; none where the store closed the call
type outcome struct {
	Call uint64 `json:"call"`
	// ByStore is true for a call that the store closed: nobody told it what
	// became of it.
	ByStore bool `json:"by_store,omitempty"`
	// Same is equal for outcomes that say the same.
	Same string `json:"same"`

	text       []byte
	projection []byte
	refused    string // why the sentinel stands for a candidate; not in the log
}

func (o *outcome) entry(run uint32) entry {
	b := headed(o, nil)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(o.text)))
	b = append(append(b, o.text...), o.projection...)
	return entry{kind: kindOutcome, run: run, body: b, outcome: o}
}

func parseOutcome(e entry) (*outcome, error) {
	o := new(outcome)
	rest, err := unhead(e.body, o)
	r := reader{b: rest}
	o.text = r.take(int(r.uint32()))
	o.projection = r.rest()
	if err != nil || r.bad || o.Call == 0 || o.Same == "" || openBrace(o.text) < 0 {
		return nil, badBatch("an outcome of it is not as it should be")
	}
	return o, nil
}

// headed is a length, head as JSON, and raw bytes behind it.
func headed(head any, raw []byte) []byte {
	text := mustJSON(head)
	b := make([]byte, 0, 4+len(text)+len(raw)+64)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return append(append(b, text...), raw...)
}

// unhead is the inverse of headed.
func unhead(b []byte, head any) (raw []byte, err error) {
	r := reader{b: b}
	text := r.take(int(r.uint32()))
	raw = r.rest()
	if r.bad {
		return nil, badBatch("a head of it is cut")
	}
	return raw, json.Unmarshal(text, head)
}

func hexB3(b []byte) string {
	sum := blake3.Sum256(b)
	return hex.EncodeToString(sum[:])
}
