package runs

import (
	"fmt"
	"strings"
)

// lifeRunBytesMax bounds the runs of every other store: some lives meet it.
const lifeRunBytesMax = 2500

// lifeCallBytesMax is more than a claim counts for in these lives.
const lifeCallBytesMax = 700

// full is the code for n bytes more of a run, "" where there is room.
func (m *lifeModel) full(r *lifeRun, n int) Code {
	if most := m.quota.runBytesMax; most > 0 && m.info(r.id).Bytes+int64(max(n, 1)) > most {
		return RunBytes
	}
	return ""
}

// fullOf reports whether a claim was refused for want of room, of which there
// must not have been much.
func (m *lifeModel) fullOf(r *lifeRun, err error) bool {
	if CodeOf(err) != RunBytes {
		return false
	}
	if m.full(r, lifeCallBytesMax) == "" {
		m.t.Errorf("%s has %d bytes, and a call has no room: %v", r.id, m.info(r.id).Bytes, err)
	}
	return true
}

// put stores a payload, whose bytes are those of its name.
func (m *lifeModel) put(r *lifeRun) {
	n := m.rand.IntN(4)
	name, text := fmt.Sprint("p", n), strings.Repeat("p", 150*n)
	full := m.full(r, len(text))
	if !m.agentAsks(r, "write", "put "+name, func(c Caller) error {
		_, _, err := m.s.Put(ctx, c, r.id, name, SourceNamed, "", strings.NewReader(text))
		return err
	}) {
		return
	}
	switch {
	case r.payloads[name] == "deleted":
		m.want("put", m.last, PayloadConflict)
	case r.payloads[name] == "there":
		m.want("put", m.last, "")
	default:
		if m.want("put", m.last, full); full == "" {
			r.payloads[name] = "there"
		}
	}
}

// deletes lets the owner delete a payload, in whatever phase.
func (m *lifeModel) deletes(r *lifeRun) {
	name := fmt.Sprint("p", m.rand.IntN(4))
	before := m.info(r.id)
	got, err := m.s.DeletePayload(ctx, owner, r.id, name)
	m.note("delete %s of %s, %s: %v", name, r.id, r.phase, err)
	was := r.payloads[name]
	if was == "" {
		m.want("delete", err, UnknownPayload)
		return
	}
	if m.want("delete", err, ""); got.Replayed != (was == "deleted") {
		m.t.Errorf("%s, which was %s, is deleted: %+v", name, was, got)
	}
	if was == "there" {
		r.payloads[name] = "deleted"
		if r.phase == "terminal" || r.phase == "cancelled" {
			r.late++
			if after := m.info(r.id); after.Bytes != before.Bytes-got.Bytes {
				m.t.Errorf("it had %d bytes and has %d, without %d", before.Bytes, after.Bytes, got.Bytes)
			}
		}
	}
}

// checkPayloads compares what can be read.
func (m *lifeModel) checkPayloads(r *lifeRun) {
	for name, is := range r.payloads {
		_, err := m.payload(r.id, name)
		if is == "there" && err != nil || is == "deleted" && CodeOf(err) != PayloadDeleted {
			m.t.Errorf("%s of %s, which is %s: %v", name, r.id, is, err)
		}
	}
}
