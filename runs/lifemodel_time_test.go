package runs

import (
	"fmt"
	"strings"
	"time"
)

// passTime lets time pass with a tick every second.
func (m *lifeModel) passTime(d time.Duration) {
	m.note("%s pass", d)
	for ; d > 0; d -= time.Second {
		m.clock.Advance(time.Second)
		m.tick()
	}
}

// sleep lets time pass without a tick: the daemon was stopped.
func (m *lifeModel) sleep(d time.Duration) {
	m.note("the daemon is stopped for %s", d)
	m.clock.Advance(d)
	m.tick()
}

func (m *lifeModel) tick() {
	now := m.now()
	if gap := now - m.ticked; gap > 5*time.Second {
		for _, r := range m.runs {
			r.forgive(now, gap)
		}
	}
	m.ticked = now
	for _, r := range m.runs {
		if r.window != 0 && now >= r.window {
			r.window = 0
		}
		switch {
		case r.phase == "running" && r.lease > 0 && now-r.heard > r.lease && now-m.strained > r.lease:
			r.lost(now)
		case r.phase == "resume-dispatching" && now-r.dispatched > 60*time.Second:
			r.undispatched()
		case r.cancel == nil || now-r.cancel.asked < 5*time.Second:
		case r.cancel.tries < 2:
			r.cancel.tries, r.cancel.asked = 2, now
		default:
			r.over("cancelled", map[bool]string{true: AbortTimedOut, false: AbortNoListener}[r.cancel.told], 2)
		}
	}
	m.s.Tick(ctx)
}

func (r *lifeRun) forgive(now, gap time.Duration) {
	r.heard = now
	if r.window != 0 {
		r.window += gap
	}
	if r.dispatched != 0 {
		r.dispatched += gap
	}
	if r.cancel != nil {
		r.cancel.asked += gap
	}
}

func (m *lifeModel) restart() {
	m.note("restart")
	m.reopen()
	now := m.now()
	m.strained, m.ticked = now, now
	for _, r := range m.runs {
		switch {
		case r.phase == "running":
			r.lost(now)
		case r.phase == "resume-dispatching":
			r.undispatched()
			fallthrough
		case strings.HasPrefix(r.phase, "paused-i"), strings.HasPrefix(r.phase, "paused-s"):
			if strings.HasPrefix(r.phase, "paused-i") || strings.HasPrefix(r.phase, "paused-s") {
				r.openWindow(now)
			}
		case r.phase == "cancel-requested":
			r.over("cancelled", AbortNoListener, 2)
		}
	}
}

// compare holds a run's record against the model.
func (m *lifeModel) compare(r *lifeRun) {
	rec := m.record(r.id)
	have := fmt.Sprint(rec.Phase, rec.Revision, rec.Epoch, rec.Resume.Attempt, rec.ProgressCount, rec.Class, len(rec.OpenCalls), rec.LateRows)
	want := fmt.Sprint(r.phase, r.revision, r.epoch, r.attempt, r.progress, r.class, len(r.open), r.late)
	if have != want {
		m.t.Errorf("%s is %s, want %s (phase revision epoch attempt progress class open late)", r.id, have, want)
		return
	}
	for i, c := range r.open {
		if got := rec.OpenCalls[i]; got.Call != c.call || got.Attempt != c.attempt || got.Safety != string(c.safety) {
			m.t.Errorf("%s: open call %+v, want %+v", r.id, got, *c)
		}
	}
	switch r.phase {
	case "terminal":
		if string(rec.Terminal.Status) != r.status {
			m.t.Errorf("%s ended as %s, want %s", r.id, rec.Terminal.Status, r.status)
		}
	case "cancelled":
		if rec.Cancel.Abort != r.status {
			m.t.Errorf("%s: abort %s, want %s", r.id, rec.Cancel.Abort, r.status)
		}
	}
}

// endLife checks the logs, and lets every run that is not over come to its end,
// so that the next life has the store to itself.
func (m *lifeModel) endLife() {
	for _, r := range m.runs {
		if n := len(m.agentRows(r.id)); n != r.rows {
			m.t.Errorf("%s has %d rows, want %d", r.id, n, r.rows)
		}
		m.checkPayloads(r)
		if r.phase == "cancelled" || r.phase == "terminal" {
			types := strings.Fields(m.ownTypes(r.id))
			if last := types[len(types)-1]; last != r.phase || strings.Count(strings.Join(types, " "), last) != 1 {
				m.t.Errorf("the log of %s tells %v", r.id, types)
			}
			continue
		}
		if r.phase != "cancel-requested" {
			if err := m.cancel(r.id); err != nil {
				m.t.Errorf("cancel %s at the end: %v", r.id, err)
			}
			m.compareEnd(r)
		}
		if rec := m.record(r.id); rec.Phase == "cancel-requested" {
			if err := m.s.finishCancel(ctx, uint32(m.ref(r.id)), AbortKilled); err != nil {
				m.t.Error(err)
			}
		}
	}
}

func (m *lifeModel) compareEnd(r *lifeRun) {
	if rec := m.record(r.id); rec.Phase != "cancelled" && rec.Phase != "cancel-requested" {
		m.t.Errorf("%s was cancelled and is %s", r.id, rec.Phase)
	}
}
