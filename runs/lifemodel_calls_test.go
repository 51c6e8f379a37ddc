package runs

import (
	"fmt"
	"slices"
)

func (r *lifeRun) progressed() {
	r.revision++
	r.progress++
	r.attempt = 0
}

func (m *lifeModel) claim(r *lifeRun) {
	label := fmt.Sprint("c", m.rand.IntN(6))
	tool := []string{"a", "b"}[m.rand.IntN(2)]
	safety := append(slices.Clone(safeties), ReadOnly, ReadOnly, Idempotent)[m.rand.IntN(7)]
	var got Claimed
	if !m.agentAsks(r, "write", "claim "+label+" "+string(safety), func(c Caller) (err error) {
		got, err = m.s.Claim(ctx, c, r.id, ClaimRequest{CallID: label, Name: tool, Safety: mustJSON(safety)})
		return err
	}) {
		return
	}
	if r.ids[label] != 0 {
		m.want("claim", m.last, CallExists)
		return
	}
	if m.fullOf(r, m.last) {
		return
	}
	m.want("claim", m.last, "")
	r.calls++
	if want := (Claimed{Call: r.calls, Index: r.counts[tool], Key: fmt.Sprintf("%s:%s:%d", r.id, tool, r.counts[tool]), Attempt: 1, Safety: safety}); got != want {
		m.t.Errorf("claimed %+v, want %+v", got, want)
	}
	r.ids[label] = r.calls
	r.counts[tool]++
	r.class = r.class.Worst(safety)
	r.open = append(r.open, &lifeCall{call: r.calls, attempt: 1, epoch: r.epoch, safety: safety})
	r.progressed()
}

func (r *lifeRun) openCall(call uint64) *lifeCall {
	for _, c := range r.open {
		if c.call == call {
			return c
		}
	}
	return nil
}

func (r *lifeRun) close(call uint64, how string) {
	r.settled[call] = how
	r.open = slices.DeleteFunc(r.open, func(c *lifeCall) bool { return c.call == call })
}

func (m *lifeModel) outcome(r *lifeRun) {
	call := uint64(1 + m.rand.IntN(int(r.calls)+1))
	text := fmt.Sprintf(`{"status":"ok","n":%d}`, m.rand.IntN(2))
	same := r.settled[call] == text
	before := r.late
	passed := m.agentAsks(r, "outcome", fmt.Sprint("outcome of ", call, " ", text), func(c Caller) error {
		_, err := m.s.Outcome(ctx, c, r.id, OutcomeRequest{Call: call, Outcome: []byte(text)})
		if err == nil && same && !active(r.phase) && c.Writer == m.writer(r) {
			// No news: it is answered also when nothing else would be taken.
			return m.adopted(r)
		}
		return err
	})
	if !passed {
		if m.wasAdopted {
			m.wasAdopted, r.late = false, before
		}
		return
	}
	switch have, known := r.settled[call]; {
	case r.openCall(call) != nil:
		m.want("outcome", m.last, "")
		r.close(call, text)
		r.progressed()
	case !known:
		m.want("outcome", m.last, UnknownCall)
	case have == text:
		m.want("outcome", m.last, "")
	default:
		m.want("outcome", m.last, OutcomeConflict)
	}
}

func (m *lifeModel) writer(r *lifeRun) string {
	return m.s.token(uint32(m.ref(r.id)), r.epoch, purposeWriter)
}

// adopted makes of a success the code that the table has, where there is one.
func (m *lifeModel) adopted(r *lifeRun) error {
	code, late := r.refused("outcome")
	if !late {
		return nil
	}
	m.wasAdopted = true
	return refuse(code, "adopted")
}

func (m *lifeModel) again(r *lifeRun) {
	call := uint64(1 + m.rand.IntN(int(r.calls)+1))
	if !m.agentAsks(r, "write", fmt.Sprint("again ", call), func(c Caller) error {
		_, err := m.s.Again(ctx, c, r.id, AgainRequest{Call: call})
		return err
	}) {
		return
	}
	c := r.openCall(call)
	switch _, known := r.settled[call]; {
	case c == nil && !known:
		m.want("again", m.last, UnknownCall)
	case c == nil || c.epoch == r.epoch || c.safety != ReadOnly && c.safety != Idempotent && !c.retry:
		m.want("again", m.last, AgainRefused)
	case m.fullOf(r, m.last):
	default:
		m.want("again", m.last, "")
		c.attempt, c.epoch, c.retry = c.attempt+1, r.epoch, false
		r.progressed()
	}
}
