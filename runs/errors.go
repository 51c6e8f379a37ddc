package runs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code says which rule a refused request broke. Codes are stable: programs
// compare them, and each has its row in the API's table of problems.
type Code string

// The codes, in the order in which a request meets them.
const (
	BadID               Code = "bad-id"
	BadName             Code = "bad-name"
	BadLabel            Code = "bad-label"
	BadBinding          Code = "bad-binding"
	BadStatus           Code = "bad-status"
	BadPhase            Code = "bad-phase"
	BadLease            Code = "bad-lease"
	BadCursor           Code = "bad-cursor"
	TooLarge            Code = "too-large"
	TargetNotEnrolled   Code = "target-not-enrolled"
	UnknownRun          Code = "unknown-run"
	RunExists           Code = "run-exists"
	IdempotencyMismatch Code = "idempotency-mismatch"
	IdempotencyInFlight Code = "idempotency-in-flight"
	NotOwner            Code = "not-owner"
	WriterRequired      Code = "writer-required"
	ResumeRequired      Code = "resume-required"
	WrongToken          Code = "wrong-token"
	StaleWriter         Code = "stale-writer"
	Finished            Code = "finished"
	AttachRequired      Code = "attach-required"
	WrongPhase          Code = "wrong-phase"
	CancelRequestedCode Code = "cancel-requested"
	RevisionMismatch    Code = "revision-mismatch"
	RowNotObject        Code = "row-not-object"
	RowInvalid          Code = "row-invalid"
	RowTooLarge         Code = "row-too-large"
	ReservedName        Code = "reserved-name"
	KeyMissing          Code = "key-missing"
	KeyConflict         Code = "key-conflict"
	RunFull             Code = "run-full"
	RunBytes            Code = "run-bytes"
	StoreBytes          Code = "store-bytes"
	PayloadConflict     Code = "payload-conflict"
	UnknownPayload      Code = "unknown-payload"
	PayloadDeleted      Code = "payload-deleted"
	ProtectedSource     Code = "protected-source"
	SettleConflict      Code = "settle-conflict"
	UnaccountedCalls    Code = "unaccounted-calls"
	RunDamaged          Code = "run-damaged"
	BadCopy             Code = "bad-copy"
	LogCompacted        Code = "log-compacted"
	CopyRefused         Code = "copy-refused"
	CallExists          Code = "call-exists"
	UnknownCall         Code = "unknown-call"
	OutcomeConflict     Code = "outcome-conflict"
	AgainRefused        Code = "again-refused"
	TooManyCalls        Code = "too-many-calls"
	CallOpen            Code = "call-open"
	BadReason           Code = "bad-reason"
	ScopeMismatch       Code = "scope-mismatch"
	BindingMismatch     Code = "binding-mismatch"
	PermissionMissing   Code = "permission-missing"
	AttachWindow        Code = "attach-window"
	RollbackRefused     Code = "rollback-refused"
	LockHeld            Code = "lock-held"
	UnknownThread       Code = "unknown-thread"
	BadPolicy           Code = "bad-policy"
	RunsActive          Code = "runs-active"
	UnknownDelivery     Code = "unknown-delivery"
	UnknownSink         Code = "unknown-sink"
	DeliveryOpen        Code = "delivery-open"
)

// advice says, for each code, what the caller can do next.
var advice = map[Code]string{
	BadID:               "use a lower-case UUID, or exec_ and 1 to 64 of A-Z a-z 0-9 _ -, or none and get one",
	BadName:             "use 1 to 255 bytes of UTF-8 without control characters and slashes; what begins with a dot is the store's",
	BadLabel:            "use at most 64 labels with names like those of payloads and values of at most 256 bytes of UTF-8",
	BadBinding:          "give exactly provider, model, scope (at most 256 bytes each) and local",
	BadStatus:           "use success, failure or aborted",
	BadPhase:            "use one of " + strings.Join(phaseNames[Running:], ", "),
	BadLease:            "use whole milliseconds up to 24 hours, or 0 for a run driven by hand",
	BadCursor:           "begin the list again without a cursor",
	TooLarge:            "send less, or put it as a payload",
	TargetNotEnrolled:   "use the target master, or have the owner enrol this one first",
	UnknownRun:          "check the id; list shows the runs there are",
	RunExists:           "use another id, or none; an Idempotency-Key makes a repeated start answer the first",
	IdempotencyMismatch: "use a new Idempotency-Key for another request",
	IdempotencyInFlight: "wait and send it again",
	NotOwner:            "ask as an owner, or send the run's writer token",
	WriterRequired:      "send the writer token that start answered",
	ResumeRequired:      "send the resume token that the run's prepare answered",
	WrongToken:          "send the newest token that was given out for this run",
	StaleWriter:         "stop: another writer has taken this run over",
	Finished:            "start a new run",
	AttachRequired:      "attach first: the run was interrupted, and its agent is to say that it is still there",
	WrongPhase:          "read the record: its actions say what can be done now",
	CancelRequestedCode: "stop: the owner has cancelled this run",
	RevisionMismatch:    "read the record again and decide anew",
	RowNotObject:        "send each row as one JSON object",
	RowInvalid:          "send each row as valid JSON in valid UTF-8",
	RowTooLarge:         "put it as a payload and name that in a row",
	ReservedName:        "rename the field: seq and by are the store's",
	KeyMissing:          "give every row the key field, a non-empty string or a number, once",
	KeyConflict:         "use another key for another row",
	RunFull:             "settle this run and go on in a new one",
	RunBytes:            "settle this run and go on in a new one, or have the owner delete payloads of it",
	StoreBytes:          "try again when the owner has deleted payloads, or serves the store with a higher bound",
	PayloadDeleted:      "read what the run's log says of it",
	PayloadConflict:     "use another name: payloads do not change",
	UnknownPayload:      "check the name; the run's payloads are listed",
	ProtectedSource:     "only named and tool_result are a caller's to write, and an owner's to delete",
	SettleConflict:      "read the record: the outcome that came first stands",
	UnaccountedCalls:    "say running or ended for every open call",
	RunDamaged:          "read what is left of it; it takes no writes before durafs repair, which this version does not have yet, and other runs are not touched",
	CallExists:          "do not run the tool; an open call runs again only under a later epoch, by again",
	UnknownCall:         "claim the call first; its claim answered its number",
	OutcomeConflict:     "take what is committed: the outcome that came first stands",
	AgainRefused:        "wait for its outcome, or have the owner name it when the run is resumed",
	TooManyCalls:        "tell what became of calls that have ended first",
	CallOpen:            "tell what became of the call first",
	BadReason:           "use a word of the manual",
	ScopeMismatch:       "name the scope that the run was started with",
	BindingMismatch:     "offer the provider that the run is bound to, or have an owner allow the other one",
	PermissionMissing:   "have an owner grant the scope, then prepare the run again",
	BadPolicy:           "give thread_runs and runs as 1 to 1073741824, log_bytes as 1 to 1152921504606846976, or retain_all",
	RunsActive:          "wait until they are over, cancel them, or force it",
	LockHeld:            "wait until the holder is over, or give lock_wait",
	RollbackRefused:     "settle the run instead",
	UnknownThread:       "check the name; the threads there are can be listed",
	BadCopy:             "use branch or before with a call, or revise with a call and a message",
	LogCompacted:        "nothing is left of its calls; what the record and the payloads say can still be read",
	CopyRefused:         "copy it up to an earlier call",
	UnknownDelivery:     "check the id; the outbox lists what there is, and what was told is not in it any more",
	UnknownSink:         "serve with that sink again, or drop the delivery",
	DeliveryOpen:        "wait until the sink has answered, and try again",
	AttachWindow:        "try again then, or say that its process is dead; an owner may force it",
}

// Codes lists every code there is, sorted.
func Codes() []Code {
	all := make([]Code, 0, len(advice))
	for c := range advice {
		all = append(all, c)
	}
	slices.Sort(all)
	return all
}

// Refusal is the error of a request that broke a rule: it changed nothing
// (but for the file of late writes, where a stale writer's words are kept),
// and the same request will be refused again.
type Refusal struct {
	Code   Code
	Detail string // what happened, to what

	// What matters to the code, else zero.
	Field    string // which field or name
	Limit    int64  // the bound that was passed
	Size     int64  // what was given
	Row      int    // number of the row in its request, from 1
	Seq      uint64 // of the row that is there already
	ETag     string // the record's present one
	Revision uint64
	Phase    string // the run's present phase
	Holder   string // the run that holds what was asked for
	Call     uint64 // number of the tool call that is meant
	State    string // of that call: open, settled
	At       time.Time
	// RetryAfter is when the same request can succeed.
	RetryAfter time.Duration
	// Committed is what is there of a call that has ended.
	Committed *Committed

	late bool // what was refused is to be kept as late
}

// Error says what happened, to what, and what to do next.
func (r *Refusal) Error() string {
	var b strings.Builder
	if r.Row > 0 {
		fmt.Fprintf(&b, "row %d: ", r.Row)
	}
	b.WriteString(r.Detail)
	if next := advice[r.Code]; next != "" {
		b.WriteString("; ")
		b.WriteString(next)
	}
	return b.String()
}

// CodeOf is the code of the refusal in err's chain, "" if there is none.
func CodeOf(err error) Code {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Code
	}
	return ""
}

func refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Detail: fmt.Sprintf(format, args...)}
}

func tooLarge(field string, size, limit int64) *Refusal {
	r := refuse(TooLarge, "%s has %d bytes, and the limit is %d", field, size, limit)
	r.Field, r.Size, r.Limit = field, size, limit
	return r
}

func fieldRefusal(code Code, field, format string, args ...any) *Refusal {
	r := refuse(code, format, args...)
	r.Field = field
	return r
}

// atRow says which row of a request a refusal is about.
func (r *Refusal) atRow(n int) *Refusal {
	r.Row = n
	return r
}
