package runs

import (
	"fmt"
	"time"
)

// record is the whole record of a run, private fields included: an immutable
// value, written as a whole at each revision. A zero time in it stands for the
// time of the batch that it was written in.
type record struct {
	// These stand before the JSON, see recordHead.
	revision, epoch uint64
	uid             uint32
	phase           Phase

	ID         string      `json:"id"`
	BootID     string      `json:"boot_id"`
	LeaseMS    int64       `json:"lease_ms"`
	Progress   uint64      `json:"progress,omitempty"`
	Class      string      `json:"class"`
	OpenCalls  []openCall  `json:"open_calls,omitempty"`
	Labels     Labels      `json:"labels,omitempty"`
	Parent     string      `json:"parent,omitempty"`
	CopiedFrom string      `json:"copied_from,omitempty"`
	Preview    string      `json:"preview,omitempty"`
	Binding    *Binding    `json:"binding,omitempty"`
	Resume     ResumeInfo  `json:"resume"`
	Pause      *PauseInfo  `json:"pause,omitempty"`
	Cancel     *CancelInfo `json:"cancel,omitempty"`
	Terminal   *Outcome    `json:"terminal,omitempty"`
	Pinned     bool        `json:"pinned,omitempty"`
	Compacted  bool        `json:"log_compacted,omitempty"`

	// Private.
	Target    string `json:"target"`               // of the journal
	TargetGen uint64 `json:"target_gen,omitempty"` // its generation at admission
	Outcome   string `json:"outcome,omitempty"`    // digest of what settle was told

	Lock string `json:"lock,omitempty"`
	// LockParent is the parent through which the run may enter its lock while that
	// is held: the one that its starter could list, "" for none.
	LockParent string   `json:"lock_parent,omitempty"`
	Allow      *Binding `json:"allow_binding,omitempty"` // an owner's consent for one activation
}

// next is a copy to make the following revision of; pointers in it are shared,
// and must be replaced, not written through.
func (rec *record) next() *record {
	n := *rec
	n.revision++
	return &n
}

// flags is what the index is to know of the record without reading it.
func (rec *record) flags() (f runFlags) {
	if rec.answered() {
		f |= flagAnswered
	}
	if rec.Pinned {
		f |= flagPinned
	}
	if rec.Compacted {
		f |= flagCompacted
	}
	return f
}

// answered reports whether the run ended with a terminal payload.
func (rec *record) answered() bool {
	return rec.phase.sealed() && rec.Terminal != nil && rec.Terminal.Payload != nil
}

// setTimes gives the times that stand for the batch's own. It is called by
// whoever made the record, before anyone else sees it.
func (rec *record) setTimes(at time.Time) {
	if rec.Pause != nil && rec.Pause.At.IsZero() {
		rec.Pause.At = at
	}
	if rec.Cancel != nil && rec.Cancel.RequestedAt.IsZero() {
		rec.Cancel.RequestedAt = at
	}
	if t := rec.Terminal; t != nil {
		if t.At.IsZero() {
			t.At = at
		}
		if t.Payload != nil && t.Payload.At.IsZero() {
			t.Payload.At = at
		}
	}
}

// public is the record as a caller sees it, joined with what the index knows.
func (rec *record) public(run Run, heartbeat time.Time, actions []string) *Record {
	open := make([]OpenCall, len(rec.OpenCalls))
	for i := range rec.OpenCalls {
		open[i] = rec.OpenCalls[i].public()
	}
	labels := rec.Labels
	if labels == nil {
		labels = Labels{}
	}
	revision := rec.revision
	if run.Damaged { // the newest may be lost
		revision = max(revision, run.Revision)
	}
	return &Record{
		ID: rec.ID, Phase: rec.phase.String(), BootID: rec.BootID,
		Revision: revision, Epoch: rec.epoch, Damaged: run.Damaged,
		StartedAt: run.StartedAt, ChangedAt: run.ChangedAt, HeartbeatAt: heartbeat,
		LeaseMS: rec.LeaseMS, ProgressCount: rec.Progress, Class: rec.Class, OpenCalls: open,
		Labels: labels, Parent: rec.Parent, CopiedFrom: rec.CopiedFrom, Preview: rec.Preview, Binding: rec.Binding,
		Resume: rec.Resume, Pause: rec.Pause, Cancel: rec.Cancel, Terminal: rec.Terminal,
		Policy: RetentionStamp, Pinned: rec.Pinned, LogCompacted: rec.Compacted,
		Log:      LogInfo{Rows: run.Rows, Bytes: run.LogBytes, LastSeq: run.LastSeq},
		LateRows: run.LateRows, UID: rec.uid, Actions: actions,
	}
}

// etag is what a caller compares revisions with: an id that was rolled back
// and admitted again never has the same.
func etag(admission, revision uint64) string {
	return fmt.Sprintf(`"%d-%d"`, admission, revision)
}
