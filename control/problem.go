package control

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrOutcomeUnknown is matched (errors.Is) by errors that leave open whether
// the request was carried out: the connection broke before the answer, or the
// daemon itself does not know. Look before repeating.
var ErrOutcomeUnknown = errors.New("the outcome is unknown: it may or may not have happened")

// Problem is how the API answers what it does not do: application/problem+json
// (RFC 9457) with a stable code. Unless the code is CodeOutcomeUnknown,
// nothing was changed. It is the error that the client returns.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Code is for programs; it never changes its meaning.
	Code string `json:"code"`
	// Retryable says that the same request may succeed later.
	Retryable bool `json:"retryable"`

	// What matters of the following is set, per code.

	Field string `json:"field,omitempty"` // what of the request is meant
	// Limit and Size are the bound and what was asked for; bytes, or a count.
	Limit int64 `json:"limit,omitempty"`
	Size  int64 `json:"size,omitempty"`
	// Row is the number, from 1, of the row that is meant.
	Row uint64 `json:"row,omitempty"`
	// Seq is the sequence number of the row that is there already.
	Seq uint64 `json:"seq,omitempty"`
	// Revision and ETag are the current ones.
	Revision uint64 `json:"revision,omitempty"`
	ETag     string `json:"etag,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Epoch    uint64 `json:"epoch,omitempty"`
	Holder   string `json:"holder,omitempty"`
	// Call is the tool call that is meant, State whether it is open or settled,
	// and Committed what stands of it.
	Call      uint64     `json:"call,omitempty"`
	State     string     `json:"state,omitempty"`
	Committed *Committed `json:"committed,omitempty"`
	// At is when that happened which stands in the way.
	At *time.Time `json:"at,omitempty"`
	// Scope of a quota: "run", "store", or "" for the disk.
	Scope      string `json:"scope,omitempty"`
	Mount      string `json:"mount,omitempty"`
	FreeBytes  *int64 `json:"free_bytes,omitempty"`
	FreeInodes *int64 `json:"free_inodes,omitempty"`
	// RetryAfterMS is how long to wait, in milliseconds; the header Retry-After
	// has it in seconds, rounded up.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
	// File and Offset name damage.
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
}

// Codes that the API gives by itself. Those of the domain (stale-writer,
// attach-required, …) come with what it refuses.
const (
	CodeNoRoute         = "no-route"          // 404: no such path
	CodeMethod          = "method"            // 405
	CodeBadJSON         = "bad-json"          // 400: not one JSON value
	CodeUnknownField    = "unknown-field"     // 400
	CodeDuplicateName   = "duplicate-name"    // 400
	CodeTrailingBytes   = "trailing-bytes"    // 400
	CodeTooDeep         = "too-deep"          // 400: nested beyond the limit
	CodeBadField        = "bad-field"         // 400: a value of the wrong kind
	CodeBadQuery        = "bad-query"         // 400
	CodeBadHeader       = "bad-header"        // 400
	CodeContentType     = "content-type"      // 415
	CodeBodyTooLarge    = "body-too-large"    // 413
	CodeRowTooLarge     = "row-too-large"     // 413
	CodeSlowSender      = "slow-sender"       // 408
	CodeBodyIncomplete  = "body-incomplete"   // 400: the body ended too soon
	CodeBadPath         = "bad-path"          // 400
	CodeNotOwner        = "not-owner"         // 403
	CodeWriterNeeded    = "writer-required"   // 401: no writer token was sent
	CodeResumeNeeded    = "resume-required"   // 401: no resume token was sent
	CodeTooManyRequests = "too-many-requests" // 503: open requests
	CodeShuttingDown    = "shutting-down"     // 503
	CodeDegraded        = "degraded"          // 503
	CodeBusy            = "busy"              // 503: the queue is full
	CodeNoSpace         = "no-space"          // 507
	CodeReadOnly        = "read-only"         // 503: opened so, since it is damaged or full
	CodePoisoned        = "poisoned"          // 503
	CodeWriteFailed     = "write-failed"      // 503: nothing was kept
	CodeOutcomeUnknown  = "outcome-unknown"   // 500: it may have happened
	CodeDamaged         = "damaged"           // 500
	CodeInternal        = "internal"          // 500
	CodeRange           = "range"             // 416
)

// Codes of the domain that the client acts on.
const (
	CodeAttachRequired = "attach-required"
	CodeStaleWriter    = "stale-writer"
	CodeFinished       = "finished"
	CodeWrongPhase     = "wrong-phase"
	CodeCancelled      = "cancel-requested"
	CodeCallExists     = "call-exists"
	CodeAttachWindow   = "attach-window"
	CodeUnaccounted    = "unaccounted-calls"

	CodeRunBytes       = "run-bytes"       // 507: the run has no room for it
	CodePayloadDeleted = "payload-deleted" // 410

	CodeAgainRefused    = "again-refused"
	CodeOutcomeConflict = "outcome-conflict"
)

// States of a tool call, as a Problem tells them.
const (
	CallOpen    = "open"
	CallSettled = "settled"
)

// ProblemType is the type URI of a code.
func ProblemType(code string) string { return "urn:durafs:problem:" + code }

// Error is one line for people.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Title)
	if p.Detail != "" {
		b.WriteString(": ")
		b.WriteString(p.Detail)
	}
	if p.Row != 0 {
		fmt.Fprintf(&b, " (row %d)", p.Row)
	}
	fmt.Fprintf(&b, " [%s]", p.Code)
	return b.String()
}

// Is makes errors.Is(err, ErrOutcomeUnknown) say whether the daemon does not
// know.
func (p *Problem) Is(target error) bool {
	return target == ErrOutcomeUnknown && p.Code == CodeOutcomeUnknown
}

// Code is the code of the problem in err's chain, "" if there is none.
func Code(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}
