package server

import (
	"io"
	"math"
	"net/http"
	"strconv"

	"durafs/runs"
)

// readLog is GET /v1/runs/{id}/log?from=&tail=&follow=1: rows as NDJSON.
func (r *request) readLog() error {
	q := r.query([]string{"from", "tail", "follow"})
	from, tail, follow := q.num("from", math.MaxUint64), q.num("tail", math.MaxUint64), q.flag("follow")
	if q.err != nil {
		return q.err
	}
	ref, err := r.s.runs.Look(r.caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	for {
		changed := r.s.runs.Changed(ref)
		info, _ := r.s.runs.Info(ref)
		first := from
		if tail > 0 {
			first = max(from, info.LastSeq-min(tail, info.LastSeq)+1)
		}
		l := &logAnswer{r: r, ref: ref, from: first, generation: info.Generation}
		err := l.answer(info, changed, follow)
		now, _ := r.s.runs.Info(ref)
		if err == nil || r.began || now.Generation == info.Generation {
			return err
		}
		// What could not be read is known by now, and named in another log.
	}
}

func (l *logAnswer) answer(info runs.Run, changed <-chan struct{}, follow bool) error {
	if err := l.seek(info); err != nil {
		return err
	}
	if !follow {
		return l.all(info)
	}
	return l.follow(info, changed)
}

// logAnswer is one reading of a log.
type logAnswer struct {
	r          *request
	ref        runs.Ref
	from       uint64 // the row to begin with, 0 once off is its offset
	off        int64  // what was sent up to here
	generation uint32
}

// seek finds where the first row begins. As long as neither it nor the one
// before it is there, nothing is to be sent.
func (l *logAnswer) seek(info runs.Run) (err error) {
	switch {
	case l.from == 0:
	case l.from > info.LastSeq+1:
		l.off = info.LogBytes
	default:
		l.off, err = l.r.s.runs.LogOffset(l.ref, l.from)
		l.from = 0
	}
	return err
}

// all sends the log as it is now.
func (l *logAnswer) all(info runs.Run) error {
	h := l.r.w.Header()
	h["Content-Type"] = ndjsonType
	h["Content-Length"] = []string{strconv.FormatInt(max(0, info.LogBytes-l.off), 10)}
	if l.r.Method == http.MethodHead {
		l.begin()
		return nil
	}
	return l.upTo(info.LogBytes)
}

// follow sends rows as they come, until the run is finished, the reader is
// gone, or the daemon goes down. changed was taken before info.
func (l *logAnswer) follow(info runs.Run, changed <-chan struct{}) error {
	l.r.w.Header()["Content-Type"] = ndjsonType
	if l.r.Method == http.MethodHead {
		l.begin()
		return nil
	}
	for {
		if info.Generation != l.generation {
			panic(http.ErrAbortHandler) // offsets mean other rows now; the client goes on by seq
		}
		if err := l.upTo(info.LogBytes); err != nil {
			return err
		}
		if info.Sealed() {
			l.begin()
			return nil
		}
		l.begin()
		if err := l.r.ctl.Flush(); err != nil {
			return nil
		}
		select {
		case <-changed:
		case <-l.r.Context().Done():
			return nil
		case <-l.r.s.closing:
			panic(http.ErrAbortHandler) // not the log's end: the client asks again
		}
		changed = l.r.s.runs.Changed(l.ref)
		info, _ = l.r.s.runs.Info(l.ref)
		if err := l.seek(info); err != nil {
			return l.broken(err)
		}
	}
}

func (l *logAnswer) begin() {
	if !l.r.began {
		l.r.began = true
		l.r.w.WriteHeader(http.StatusOK)
	}
}

// upTo sends the rendered log up to the offset end.
func (l *logAnswer) upTo(end int64) error {
	if l.off >= end {
		l.begin()
		return nil
	}
	buf := takeBuffer()
	defer giveBuffer(buf)
	for l.off < end {
		p := (*buf)[:min(int64(len(*buf)), end-l.off)]
		n, err := l.r.s.runs.ReadLogAt(l.ref, p, l.off)
		if n == 0 {
			return l.broken(err)
		}
		l.begin()
		l.r.readerMayTake()
		if _, err := l.r.w.Write(p[:n]); err != nil {
			panic(http.ErrAbortHandler) // the reader is gone, or too slow
		}
		l.off += int64(n)
	}
	return nil
}

// broken is a log that cannot be read on: an answer if none has begun, else a
// connection that is cut.
func (l *logAnswer) broken(err error) error {
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if !l.r.began {
		h := l.r.w.Header()
		delete(h, "Content-Length")
		return err
	}
	l.r.s.log.Error("log cut short", "path", l.r.URL.Path, "offset", l.off, "err", err)
	panic(http.ErrAbortHandler)
}
