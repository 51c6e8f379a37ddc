package control

import "encoding/json"

// StartRequest asks for a new run. Every field may be left out.
type StartRequest struct {
	// ID is the caller's choice: a lower-case UUID, or exec_ and 1 to 64 of
	// [A-Za-z0-9_-]. "" lets the daemon issue a UUIDv7.
	ID     string            `json:"id,omitempty"`
	Labels map[string]string `json:"labels,omitzero"`
	Parent string            `json:"parent,omitempty"`
	// Task is the task's text; the record keeps a short masked preview.
	Task string `json:"task,omitempty"`
	// LeaseMS is how long the run may be silent, in milliseconds: nil for the
	// daemon's default, 0 for a run driven by hand that only a restart
	// interrupts.
	LeaseMS *int64 `json:"lease_ms,omitempty"`
	// Target is the journal that the run reports to, "" for master.
	Target  string   `json:"target,omitempty"`
	Binding *Binding `json:"binding,omitempty"`
	// ResumeRequest is what the agent needs to continue. It is private: no
	// answer, event or file shows it.
	ResumeRequest []byte `json:"resume_request_b64,omitempty"`
	// Message is the thread's user turn, a JSON object.
	Message json.RawMessage `json:"message,omitempty"`
	// Lock is a name that at most one active run holds at a time, and those that
	// descend from it; LockWaitMS is how long to wait for it, in milliseconds.
	Lock       string `json:"lock,omitempty"`
	LockWaitMS int64  `json:"lock_wait_ms,omitempty"`

	// IdempotencyKey travels as a header: the same key and body answers the
	// first run again, now and after a restart. Client.Start makes one up
	// where it is "", so that it can repeat the request.
	IdempotencyKey string `json:"-"`
}

// Started answers a start, and an attach. Writer is the secret that acts for
// the run; it is "" on a replay that gives none.
type Started struct {
	Record   *Record `json:"record"`
	Epoch    uint64  `json:"epoch"`
	Writer   string  `json:"writer,omitempty"`
	Replayed bool    `json:"replayed,omitempty"`
	ETag     string  `json:"-"`
}

// Appended acknowledges rows of one request: they are durable. For a repeated
// idempotency key the numbers are those of the first time, and Replayed is
// set.
type Appended struct {
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
	Rows     int    `json:"rows"`
	Replayed bool   `json:"replayed,omitempty"`
}

// Ack is a line of the answer to a streamed append: the first Acked rows of
// the stream are durable, and LastSeq is the sequence number of the last of
// them. The last line has Done, once the whole stream is durable, or Problem,
// with Row the number (from 1) of the row that could not be taken; what Acked
// counts is durable either way.
type Ack struct {
	Acked   uint64   `json:"acked"`
	LastSeq uint64   `json:"last_seq"`
	Done    bool     `json:"done,omitempty"`
	Row     uint64   `json:"row,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// SettleRequest ends a run.
type SettleRequest struct {
	// Status is Success, Failure or Aborted.
	Status string `json:"status"`
	// Summary (1 KiB) and Result (8 KiB) are previews of the answer.
	Summary string `json:"summary,omitempty"`
	Result  string `json:"result,omitempty"`
	// Payload is the complete final answer, nil for none.
	Payload *TerminalPayload `json:"payload,omitempty"`

	// IfMatch travels as a header: the ETag that the caller saw, "" for any.
	// If the run has changed since, the answer is a revision problem.
	IfMatch string `json:"-"`
}

// TerminalPayload is a final answer: exactly one of its bytes, its text, or
// the name of a payload of the run that was put before. What does not fit a
// request body (1 MiB) is put first and named here.
type TerminalPayload struct {
	Bytes       []byte  `json:"b64,omitempty"`
	Text        *string `json:"text,omitempty"`
	Name        string  `json:"name,omitempty"`
	ContentType string  `json:"content_type,omitempty"`
}

// Settled answers a settle; Replayed when the same outcome was there already.
type Settled struct {
	Record   *Record `json:"record"`
	Replayed bool    `json:"replayed,omitempty"`
	ETag     string  `json:"-"`
}

// Put answers a put of a payload; Replayed when the same bytes were there
// under that name already.
type Put struct {
	Payload  PayloadInfo `json:"payload"`
	Replayed bool        `json:"replayed,omitempty"`
}

// Beat is the body of a heartbeat.
type Beat struct {
	// Note is at most 512 bytes.
	Note string `json:"note,omitempty"`
}

// Beaten answers a heartbeat. Abort says that the owner cancelled the run: the
// agent should stop.
type Beaten struct {
	Record *Record `json:"record"`
	Abort  bool    `json:"abort"`
}

// AttachRequest says what became of the calls that were open when the daemon
// went: call number to "running" or "ended".
type AttachRequest struct {
	Calls map[uint64]string `json:"calls,omitempty"`
}

// ListQuery selects runs; zero fields select everything. Newest first.
type ListQuery struct {
	Thread string
	Phase  string
	Parent string
	Labels map[string]string
	Text   string // in the preview
	After  string // cursor of a former page
	Limit  int    // 0: 50; at most 1000
}

// Page is a page of a list. Next is the cursor of the following page, "" at
// the end. Policy is the retention policy in force.
type Page struct {
	Runs   []*Record `json:"runs"`
	Next   string    `json:"next,omitempty"`
	Policy Policy    `json:"policy"`
}

// LogQuery selects rows of a log.
type LogQuery struct {
	// From is the first sequence number wanted; 0 is from the beginning.
	From uint64
	// Tail, where positive, is how many of the last rows are wanted; it goes
	// before From.
	Tail int
	// Follow waits for further rows until the run is finished.
	Follow bool
}

// Health answers /healthz. Reason says why the daemon is degraded.
type Health struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}
