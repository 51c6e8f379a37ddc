package server

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"time"

	"durafs/control"
	"durafs/runs"
)

// leaseDefault asks the domain for its default lease.
const leaseDefault = -time.Nanosecond

// startBody is control.StartRequest as it is received: what is left out and
// what is empty are told apart.
type startBody struct {
	ID            *string           `json:"id"`
	Labels        map[string]string `json:"labels"`
	Parent        string            `json:"parent"`
	Task          string            `json:"task"`
	LeaseMS       *int64            `json:"lease_ms"`
	Target        string            `json:"target"`
	Binding       *runs.Binding     `json:"binding"`
	ResumeRequest []byte            `json:"resume_request_b64"`
	Message       json.RawMessage   `json:"message"`
	Lock          string            `json:"lock"`
	LockWaitMS    int64             `json:"lock_wait_ms"`
}

type startedBody struct {
	Record   *runs.Record `json:"record"`
	Epoch    uint64       `json:"epoch"`
	Writer   string       `json:"writer,omitempty"`
	Replayed bool         `json:"replayed,omitempty"`
}

// start is POST /v1/runs.
func (r *request) start() error {
	b, err := r.envelopeBytes()
	if err != nil {
		return err
	}
	var body startBody
	if p := decode(b, &body); p != nil {
		return p
	}
	q, err := body.request()
	if err != nil {
		return err
	}
	if q.IdempotencyKey, err = r.header1(control.HeaderIdempotencyKey); err != nil {
		return err
	}
	q.BodyHash = sha256.Sum256(b)
	s, err := r.s.runs.Start(r.Context(), r.caller, q)
	if err != nil {
		return err
	}
	return r.answerStarted(s)
}

// answerStarted answers with a run that was admitted, now or before.
func (r *request) answerStarted(s runs.Started) error {
	r.etag(s.ETag)
	r.w.Header()["Location"] = []string{"/v1/runs/" + s.Record.ID}
	status := http.StatusCreated
	if s.Replayed {
		status = http.StatusOK
	}
	return r.answer(status, startedBody{s.Record, s.Epoch, s.Writer, s.Replayed})
}

func (b *startBody) request() (runs.StartRequest, error) {
	q := runs.StartRequest{
		Labels: b.Labels, Parent: b.Parent, Task: b.Task, Lease: leaseDefault, Target: b.Target,
		Binding: b.Binding, ResumeRequest: b.ResumeRequest, Message: b.Message, Lock: b.Lock,
	}
	if b.LockWaitMS < 0 || b.LockWaitMS > runs.LockWaitMax.Milliseconds() {
		p := problem(http.StatusBadRequest, control.CodeBadField, "the wait for a lock is a number of milliseconds")
		p.Field, p.Size, p.Limit = "lock_wait_ms", b.LockWaitMS, runs.LockWaitMax.Milliseconds()
		return q, p
	}
	q.LockWait = time.Duration(b.LockWaitMS) * time.Millisecond
	if b.ID != nil {
		id, err := runs.ParseID(*b.ID)
		if err != nil {
			return q, err // "" too: an id that is given is an id
		}
		q.ID = id
	}
	if string(b.Message) == "null" {
		q.Message = nil
	}
	if b.LeaseMS != nil {
		const leaseMSMax = 1 << 40
		if *b.LeaseMS < 0 || *b.LeaseMS > leaseMSMax {
			p := problem(http.StatusBadRequest, string(runs.BadLease), "the lease is a number of milliseconds, 0 for none")
			p.Field, p.Size, p.Limit = "lease_ms", *b.LeaseMS, leaseMSMax
			return q, p
		}
		q.Lease = time.Duration(*b.LeaseMS) * time.Millisecond
	}
	return q, nil
}

// attach is POST /v1/runs/{id}/attach.
func (r *request) attach() error {
	var body struct {
		Calls map[uint64]string `json:"calls"`
	}
	if err := r.envelope(&body); err != nil {
		return err
	}
	s, err := r.s.runs.Attach(r.Context(), r.caller, r.PathValue("id"), runs.AttachRequest{Calls: body.Calls})
	if err != nil {
		return err
	}
	r.etag(s.ETag)
	return r.answer(http.StatusOK, startedBody{s.Record, s.Epoch, s.Writer, s.Replayed})
}
