package server

import (
	"bufio"
	"io"
	"math"
	"net/http"

	"durafs/runs"
)

// history is GET /v1/runs/{id}/history?upto=&vision=&image_budget=: what a model
// should see of the run's calls, a line of JSON for each. With vision, 0 or 1,
// images are put back, or replaced by a text.
func (r *request) history() error {
	q := r.query([]string{"upto", "vision", "image_budget"})
	h := runs.HistoryRequest{
		Upto: q.num("upto", math.MaxUint64), Materialize: q.v.Has("vision"), Vision: q.flag("vision"), ImageBudget: runs.ImageBudgetDefault,
	}
	if q.v.Has("image_budget") {
		if h.ImageBudget = int64(q.num("image_budget", math.MaxInt64)); !h.Materialize {
			q.bad("image_budget", "a budget for images needs vision=1")
		}
	}
	if q.err != nil {
		return q.err
	}
	ref, err := r.s.runs.Look(r.caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	r.w.Header()["Content-Type"] = ndjsonType
	out := &historyAnswer{r: r}
	buffered := bufio.NewWriterSize(out, copyBytes)
	if r.Method != http.MethodHead {
		if err := r.s.runs.History(r.Context(), ref, h, buffered); err != nil {
			return out.broken(err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return out.broken(err)
	}
	out.begin()
	return nil
}

// historyAnswer is the answer, which begins with its first bytes.
type historyAnswer struct{ r *request }

func (a *historyAnswer) begin() {
	if !a.r.began {
		a.r.began = true
		a.r.w.WriteHeader(http.StatusOK)
	}
}

func (a *historyAnswer) Write(p []byte) (int, error) {
	a.begin()
	a.r.readerMayTake()
	n, err := a.r.w.Write(p)
	if err != nil {
		panic(http.ErrAbortHandler) // the reader is gone, or too slow
	}
	return n, nil
}

// broken is a history that cannot be read on: an answer if none has begun, else
// a connection that is cut.
func (a *historyAnswer) broken(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if !a.r.began {
		return err
	}
	a.r.s.log.Error("history cut short", "path", a.r.URL.Path, "err", err)
	panic(http.ErrAbortHandler)
}
