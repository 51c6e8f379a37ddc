package control

import (
	"encoding/json"
	"time"
)

// Statuses of a terminal run.
const (
	Success         = "success"
	Failure         = "failure"
	Aborted         = "aborted"
	ResumeExhausted = "resume-exhausted" // the store's own
)

// Phases of a run. A newer daemon may know more: show them as they are.
const (
	PhaseRunning                   = "running"
	PhaseSettling                  = "settling"
	PhasePausedInterruption        = "paused-interruption"
	PhasePausedSideEffectUncertain = "paused-side-effect-uncertain"
	PhasePausedPermission          = "paused-permission"
	PhasePausedProviderChange      = "paused-provider-change"
	PhaseResumeDispatching         = "resume-dispatching"
	PhaseCancelRequested           = "cancel-requested"
	PhaseCancelled                 = "cancelled"
	PhaseTerminal                  = "terminal"
)

// Record is the public record of a run, as the daemon answered it.
//
// A record that was decoded remembers its bytes and marshals to them, so that
// what a newer daemon adds is passed on as it is.
type Record struct {
	ID            string            `json:"id"`
	Phase         string            `json:"phase"`
	BootID        string            `json:"boot_id"`
	Revision      uint64            `json:"revision"`
	Epoch         uint64            `json:"epoch"`
	StartedAt     time.Time         `json:"started_at"`
	ChangedAt     time.Time         `json:"changed_at"`
	HeartbeatAt   time.Time         `json:"heartbeat_at"`
	LeaseMS       int64             `json:"lease_ms"`
	ProgressCount uint64            `json:"progress_count"`
	Class         string            `json:"class"`
	OpenCalls     []OpenCall        `json:"open_calls"`
	Labels        map[string]string `json:"labels"`
	Parent        string            `json:"parent,omitempty"`
	CopiedFrom    string            `json:"copied_from,omitempty"`
	Preview       string            `json:"preview"`
	Binding       *Binding          `json:"binding,omitempty"`
	Resume        ResumeInfo        `json:"resume"`
	Pause         *PauseInfo        `json:"pause,omitempty"`
	Cancel        *CancelInfo       `json:"cancel,omitempty"`
	Terminal      *Outcome          `json:"terminal,omitempty"`
	Policy        string            `json:"policy"`
	Pinned        bool              `json:"pinned"`
	LogCompacted  bool              `json:"log_compacted"`
	Damaged       bool              `json:"damaged"`
	Log           LogInfo           `json:"log"`
	LateRows      uint64            `json:"late_rows"`
	UID           uint32            `json:"uid"`
	Actions       []string          `json:"actions"`

	// Raw is what was decoded; nil in a record that was not.
	Raw json.RawMessage `json:"-"`
}

// plainRecord is Record without its methods.
type plainRecord Record

// UnmarshalJSON decodes what it knows and keeps the rest in Raw.
func (r *Record) UnmarshalJSON(b []byte) error {
	var p plainRecord
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*r = Record(p)
	r.Raw = append(json.RawMessage(nil), b...)
	return nil
}

// MarshalJSON gives back what was decoded, else the fields.
func (r *Record) MarshalJSON() ([]byte, error) {
	if r.Raw != nil {
		return r.Raw, nil
	}
	return json.Marshal((*plainRecord)(r))
}

// Sealed reports whether the run is finished: its log will not grow any more.
func (r *Record) Sealed() bool {
	return r.Phase == PhaseTerminal || r.Phase == PhaseCancelled
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
	// Binding says which provider a run is bound to; it never holds a key.
	Binding struct {
		Provider string `json:"provider"`
		Model    string `json:"model"`
		Scope    string `json:"scope"`
		Local    bool   `json:"local"`
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
		Abort       string    `json:"abort,omitempty"`
		Attempts    uint64    `json:"attempts,omitempty"`
	}
	// Outcome is how a run ended. Summary and Result are bounded previews; the
	// complete answer is the payload named TerminalName.
	Outcome struct {
		Status  string       `json:"status"`
		Summary string       `json:"summary"`
		Result  string       `json:"result,omitempty"`
		Payload *PayloadInfo `json:"payload,omitempty"`
		At      time.Time    `json:"at"`
	}
	// LogInfo counts a run's rows. Bytes is the length of the log as it is
	// read back.
	LogInfo struct {
		Rows    uint64 `json:"rows"`
		Bytes   int64  `json:"bytes"`
		LastSeq uint64 `json:"last_seq"`
	}
	// PayloadInfo is what is known of a payload without reading it. B3 is the
	// BLAKE3 of its bytes in 64 lower-case hexadecimal digits, as b3sum
	// prints it.
	PayloadInfo struct {
		Name        string    `json:"name"`
		B3          string    `json:"b3"`
		Bytes       int64     `json:"bytes"`
		ContentType string    `json:"content_type,omitempty"`
		Source      string    `json:"source"`
		At          time.Time `json:"at"`
	}
)

// TerminalName is the name of the payload that a settle left: the complete
// final answer.
const TerminalName = ".terminal"
