// Package runs is the domain: runs of agents, their records, rows and
// payloads, and the rules by which they change.
//
// # The idea
//
// The log (package wal) is the database. Every change is one accept step:
// inside the log's accept lock the step checks its fences against the accepted
// state, takes revision, sequence number and time, and hands batches to the
// log; after their barrier the values they make are published, and only
// published values are ever read by anyone. Opening a store replays the
// batches through the same code.
//
// Memory holds an index in flat arrays: a run costs a row in them, not a
// pointer. What is more (the record's text, rows, payloads) is read from the
// log by position when someone asks.
//
// # Where to read on
//
// A request goes: gate.go (who, whose token, what the phase takes) → the verb
// (start.go, append.go, put.go, settle.go, attach.go, beat.go) → accept.go
// (stamp, hand to the log) → publish.go → apply.go (into the index). How a
// batch is written stands in batch.go and entry.go, what a row looks like in
// row.go, the life of a run in transitions.go, what happens at a restart in
// boot.go.
package runs

import (
	"encoding/json"
	"io"
	"time"

	"durafs/cas"
)

// Caller is who asks. Which of its powers a method needs is said there; the
// method decides, handlers only fill it in.
type Caller struct {
	// UID is the peer's uid as the kernel tells it.
	UID uint32
	// Owner is true for the daemon's own uid and root on the owner's socket.
	Owner bool
	// Writer is the writer token that came with the request, "" if none.
	Writer string
	// Resume is the resume token that came with it, "" if none.
	Resume string
}

// Phase is where a run is in its life; the table of what each phase takes is
// in transitions.go.
type Phase uint8

const (
	PhaseNone Phase = iota // no such run
	Running
	Settling
	PausedInterruption
	PausedSideEffectUncertain
	PausedPermission
	PausedProviderChange
	ResumeDispatching
	CancelRequested
	Cancelled
	Terminal
)

// Status is how a terminal run ended.
type Status string

const (
	Success         Status = "success"
	Failure         Status = "failure"
	Aborted         Status = "aborted"
	ResumeExhausted Status = "resume-exhausted" // the store's own
)

// Labels are a run's labels, name to value. They never decide authority.
type Labels map[string]string

// Binding says which provider a run is bound to; it has exactly these fields.
type Binding struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Scope    string `json:"scope"`
	Local    bool   `json:"local"`
}

// Record is the public record of a run: an immutable value. Its JSON is what
// the API answers and the mount shows; private fields are not in it.
type Record struct {
	ID            string      `json:"id"`
	Phase         string      `json:"phase"`
	BootID        string      `json:"boot_id"`
	Revision      uint64      `json:"revision"`
	Epoch         uint64      `json:"epoch"`
	StartedAt     time.Time   `json:"started_at"`
	ChangedAt     time.Time   `json:"changed_at"`
	HeartbeatAt   time.Time   `json:"heartbeat_at"`
	LeaseMS       int64       `json:"lease_ms"`
	ProgressCount uint64      `json:"progress_count"`
	Class         string      `json:"class"`
	OpenCalls     []OpenCall  `json:"open_calls"`
	Labels        Labels      `json:"labels"`
	Parent        string      `json:"parent,omitempty"`
	CopiedFrom    string      `json:"copied_from,omitempty"`
	Preview       string      `json:"preview"`
	Binding       *Binding    `json:"binding,omitempty"`
	Resume        ResumeInfo  `json:"resume"`
	Pause         *PauseInfo  `json:"pause,omitempty"`
	Cancel        *CancelInfo `json:"cancel,omitempty"`
	Terminal      *Outcome    `json:"terminal,omitempty"`
	Policy        string      `json:"policy"`
	Pinned        bool        `json:"pinned"`
	LogCompacted  bool        `json:"log_compacted"`
	// Damaged says that something of the run that was stored cannot be read any
	// more. What is lost of its log is named there; it takes no writes.
	Damaged  bool     `json:"damaged"`
	Log      LogInfo  `json:"log"`
	LateRows uint64   `json:"late_rows"`
	UID      uint32   `json:"uid"`
	Actions  []string `json:"actions"`
}

type (
	// OpenCall is a tool call that was claimed and has no outcome.
	OpenCall struct {
		Call    uint64 `json:"call"`
		CallID  string `json:"call_id"`
		Name    string `json:"name"`
		Index   uint64 `json:"index"` // within its tool, from 0
		Safety  string `json:"safety"`
		Attempt uint64 `json:"attempt"`
	}
	// ResumeInfo tells whether and how often a run was resumed.
	ResumeInfo struct {
		Available bool   `json:"available"`
		Attempt   uint64 `json:"attempt"`
		FromPhase string `json:"from_phase,omitempty"`
	}
	// PauseInfo tells why a run is paused.
	PauseInfo struct {
		Reason string    `json:"reason"`
		At     time.Time `json:"at"`
		Detail string    `json:"detail,omitempty"`
	}
	// CancelInfo is the owner's tombstone.
	CancelInfo struct {
		RequestedAt time.Time `json:"requested_at"`
		ByUID       uint32    `json:"by_uid"`
		Abort       string    `json:"abort,omitempty"` // what became of it
		Attempts    uint64    `json:"attempts,omitempty"`
	}
	// Outcome is how a run ended. Summary and Result are bounded previews; the
	// complete answer is the payload.
	Outcome struct {
		Status  Status       `json:"status"`
		Summary string       `json:"summary"`
		Result  string       `json:"result,omitempty"`
		Payload *PayloadInfo `json:"payload,omitempty"`
		At      time.Time    `json:"at"`
	}
	// LogInfo counts a run's rows: exact, rendered.
	LogInfo struct {
		Rows    uint64 `json:"rows"`
		Bytes   int64  `json:"bytes"`
		LastSeq uint64 `json:"last_seq"`
	}
	// PayloadInfo is what is known of a payload without reading it.
	PayloadInfo struct {
		Name        string `json:"name"`
		B3          cas.ID `json:"b3"`
		Bytes       int64  `json:"bytes"`
		ContentType string `json:"content_type,omitempty"`
		Source      Source `json:"source"`
		// Ordinal numbers the payloads of a run, from 0, never reused.
		Ordinal uint32    `json:"-"`
		At      time.Time `json:"at"`
	}
)

// Source says what a payload is for; the policy of each is in payload.go.
type Source string

const (
	SourceNamed         Source = "named"
	SourceTerminal      Source = "terminal"
	SourceLogBody       Source = "log_body"
	SourceResumeRequest Source = "resume_request"
	SourceToolResult    Source = "tool_result"
	SourceProjection    Source = "tool_result_projection"
)

// TerminalName is the name of the terminal payload, which a caller cannot
// give; the mount shows it as the file payload of the run.
const TerminalName = ".terminal"

// StartRequest asks for a new run.
type StartRequest struct {
	// ID is the caller's choice, "" for a UUIDv7 of the store.
	ID string
	// Labels include thread, correlation_id, schedule, task_id.
	Labels Labels
	Parent string
	// Task is the task's text; the record keeps a bounded, masked preview.
	Task string
	// Lease is how long the run may be silent; negative for the default.
	Lease  time.Duration
	Target string // journal target, "" for master
	// Lock, if not "", is held by at most one run at a time and those that
	// descend from it; LockWait is how long to wait for it.
	Lock     string
	LockWait time.Duration
	Binding  *Binding
	// ResumeRequest is private; nil if the run cannot be resumed.
	ResumeRequest []byte
	// Message is the thread's user turn, JSON; nil for none.
	Message json.RawMessage

	// IdempotencyKey and BodyHash (of the request's bytes) make a repeated
	// start answer the first; "" for none.
	IdempotencyKey string
	BodyHash       [32]byte
}

// Started answers a start. Writer is "" on a replay that gives no token.
type Started struct {
	Record   *Record
	Epoch    uint64
	Writer   string
	ETag     string
	Replayed bool
}

// Row is one row to append: one JSON object as the agent wrote it.
type Row struct {
	JSON []byte
}

// Appended acknowledges rows: they are durable.
type Appended struct {
	// FirstSeq and LastSeq are the sequence numbers given; for a repeated key
	// those of the first time.
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
	Rows     int    `json:"rows"`
	Replayed bool   `json:"replayed,omitempty"`
}

// SettleRequest ends a run.
type SettleRequest struct {
	Status  Status
	Summary string
	Result  string
	// Payload is the complete final answer, nil for none.
	Payload     io.Reader
	ContentType string
	// PayloadName names a payload that was put before as the answer, instead
	// of Payload; its chunks are shared, not copied.
	PayloadName string
	// IfMatch is the ETag that the caller saw, "" for any.
	IfMatch string
}

// Settled answers a settle; Replayed when the same outcome was there already.
type Settled struct {
	Record   *Record
	ETag     string
	Replayed bool
}

// AttachRequest says what became of the calls that were open.
type AttachRequest struct {
	Calls map[uint64]string // call number → "running" or "ended"
}

// ListQuery selects runs; zero fields select everything. Newest first.
type ListQuery struct {
	Thread string
	Phase  string
	Parent string
	Labels Labels
	Text   string // in the preview
	UID    *uint32
	After  string // cursor of a former page
	Limit  int    // 0: 50; at most 1000
}

// Page is a page of a list. Next is the cursor of the following page, "" at
// the end.
type Page struct {
	Runs []*Record
	Next string
	// Policy is the policy of retention in force.
	Policy Policy
}

// Ref names a run inside the process: its dense number, never reused, from 1.
type Ref uint32

// Run is what an index row tells without reading the log: all of it published,
// at one moment.
type Run struct {
	Ref        Ref
	ID         string
	Phase      Phase
	Revision   uint64
	Admission  uint64 // LSN
	StartedAt  time.Time
	ChangedAt  time.Time // last committed change, rows and payloads included
	Rows       uint64
	LogBytes   int64
	LastSeq    uint64
	Generation uint32 // of the log: raised by compaction and damage
	LateRows   uint64
	LateBytes  int64
	Payloads   uint32 // how many ordinals were given
	Deleted    uint32 // how many of them an owner has deleted
	Bytes      int64  // what the run counts for; see Options.RunBytesMax
	// Damaged says that something of the run is lost; see Record.Damaged.
	Damaged bool
}

// Sealed reports whether the run's log will not grow any more.
func (r Run) Sealed() bool { return r.Phase == Terminal || r.Phase == Cancelled }

// Change tells a listener what a barrier made visible of one run.
type Change struct {
	Ref   Ref
	Kinds ChangeKinds
	// Deleted are the payloads that an owner has deleted, with ChangedDeleted.
	Deleted []Deleted
}

// Deleted names a payload that was deleted.
type Deleted struct {
	Name    string
	Ordinal uint32
}

// ChangeKinds is a set of what changed.
type ChangeKinds uint16

const (
	ChangedRecord  ChangeKinds = 1 << iota
	ChangedLog                 // rows were appended
	ChangedPayload             // a payload appeared or went
	ChangedLate
	ChangedAdmitted // the run is new
	ChangedSealed   // the log will not grow any more
	ChangedRemoved  // the run is gone: its admission was undone
	ChangedPhase    // the run is in another phase
	ChangedDamaged  // something was found to be lost; the log may be another one
	ChangedDeleted  // a payload was deleted
)
