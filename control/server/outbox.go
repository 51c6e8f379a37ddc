package server

import (
	"context"
	"net/http"

	"durafs/runs"
)

// outbox is what Domain has of the sinks that are told of the ends of runs.
type outbox interface {
	Outbox(c runs.Caller, after string, limit int) (runs.OutboxPage, error)
	RetryDelivery(ctx context.Context, c runs.Caller, id string) (runs.RetryAnswer, error)
	DropDelivery(ctx context.Context, c runs.Caller, id string) (runs.DeliveryInfo, error)
}

// outbox is GET /v1/outbox?after=&limit=: what is still to be told, or parked,
// the oldest first.
func (r *request) outbox() error {
	q := r.query([]string{"after", "limit"})
	after, limit := q.str("after"), int(q.num("limit", runs.OutboxPageMax))
	if q.err != nil {
		return q.err
	}
	page, err := r.s.runs.Outbox(r.caller, after, limit)
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, page)
}

// retryDelivery is POST /v1/outbox/{id}/retry: the sink is told as soon as it
// can be, as if that had never failed.
func (r *request) retryDelivery() error {
	if err := r.emptyEnvelope(); err != nil {
		return err
	}
	a, err := r.s.runs.RetryDelivery(r.Context(), r.caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, a)
}

// dropDelivery is POST /v1/outbox/{id}/drop: the sink is not told. It answers
// what there was.
func (r *request) dropDelivery() error {
	if err := r.emptyEnvelope(); err != nil {
		return err
	}
	d, err := r.s.runs.DropDelivery(r.Context(), r.caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, d)
}

// emptyEnvelope takes no body, or an object without fields.
func (r *request) emptyEnvelope() error {
	if r.ContentLength == 0 {
		return nil
	}
	return r.envelope(&struct{}{})
}
