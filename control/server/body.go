package server

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"durafs/control"
)

// readerMayTake gives whoever reads the answer ReadIdle for the next write.
func (r *request) readerMayTake() {
	r.ctl.SetWriteDeadline(r.s.clock.Now().Add(r.s.limits.ReadIdle))
}

// senderMayTake gives the sender d for what is read next; 0 is no bound.
func (r *request) senderMayTake(d time.Duration) {
	if d == 0 {
		r.ctl.SetReadDeadline(time.Time{})
		return
	}
	r.ctl.SetReadDeadline(r.s.clock.Now().Add(d))
}

// envelope reads the body, one JSON object of the API's own, into v.
func (r *request) envelope(v any) error {
	b, err := r.envelopeBytes()
	if err != nil {
		return err
	}
	if p := decode(b, v); p != nil {
		return p
	}
	return nil
}

func (r *request) envelopeBytes() ([]byte, error) {
	if err := r.contentType(control.TypeJSON); err != nil {
		return nil, err
	}
	r.senderMayTake(r.s.limits.EnvelopeTime)
	defer r.senderMayTake(0)
	return r.whole(r.Body, r.s.limits.EnvelopeBytesMax, control.CodeBodyTooLarge)
}

// whole reads all of a body of at most max bytes. Memory is taken as bytes
// come, not as a header promises them.
func (r *request) whole(body io.Reader, max int64, code string) ([]byte, error) {
	const step = 64 << 10
	if r.ContentLength > max {
		return nil, tooLarge(code, r.ContentLength, max)
	}
	first := r.ContentLength
	if first < 0 || first > step {
		first = step
	}
	b := make([]byte, 0, first+1) // one more, to see the end
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > max:
			return nil, tooLarge(code, int64(len(b)), max)
		case err == io.EOF:
			r.over = true
			return b, nil
		case err != nil:
			return nil, bodyError(err)
		}
		if len(b) == cap(b) {
			if err := r.s.large.take(len(b)); err != nil {
				return nil, err
			}
			r.held += len(b)
			b = append(make([]byte, 0, 2*cap(b)), b...)
		}
	}
}

func tooLarge(code string, size, limit int64) *control.Problem {
	p := problem(http.StatusRequestEntityTooLarge, code, fmt.Sprintf("%d bytes or more were sent, and the limit is %d", size, limit))
	p.Size, p.Limit = size, limit
	return p
}

// senderError is a body that did not come to its end. The domain hands it back
// as it is where it reads a body.
type senderError struct{ err error }

func (e *senderError) Error() string { return "the request's body: " + e.err.Error() }
func (e *senderError) Unwrap() error { return e.err }

// bodyError marks what reading a body says, but for its end.
func bodyError(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if _, marked := err.(*senderError); marked {
		return err
	}
	return &senderError{err}
}

func (e *senderError) problem() *control.Problem {
	if errors.Is(e.err, os.ErrDeadlineExceeded) {
		return problem(http.StatusRequestTimeout, control.CodeSlowSender, "the body stopped coming; nothing of it was taken")
	}
	return problem(http.StatusBadRequest, control.CodeBodyIncomplete, "the body ended before its end, or is badly chunked; nothing of it was taken")
}

// pacedBody is a body whose sender may pause for SendIdle and no longer.
type pacedBody struct{ r *request }

func (b pacedBody) Read(p []byte) (int, error) {
	b.r.senderMayTake(b.r.s.limits.SendIdle)
	n, err := b.r.Body.Read(p)
	if err == io.EOF {
		b.r.over = true
	}
	if err != nil {
		b.r.senderMayTake(0)
	}
	return n, bodyError(err)
}

// contentType checks that the body is of one of the types.
func (r *request) contentType(want ...string) error {
	got := r.mediaType()
	for _, w := range want {
		if got == w {
			return nil
		}
	}
	return problem(http.StatusUnsupportedMediaType, control.CodeContentType,
		fmt.Sprintf("the Content-Type is %q, and must be %s", bounded(r.Header.Get("Content-Type"), 100), strings.Join(want, " or ")))
}

// mediaType is the body's type without parameters, "" if it is none.
func (r *request) mediaType() string {
	h := r.Header["Content-Type"]
	if len(h) != 1 {
		return ""
	}
	if h[0] == control.TypeJSON || h[0] == control.TypeNDJSON {
		return h[0]
	}
	t, params, err := mime.ParseMediaType(h[0])
	if err != nil || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return ""
	}
	return t
}

// header1 reads a header that may be there once. One that is there and empty
// is a variable that was not set rather than the wish to go without a
// condition or a key.
func (r *request) header1(name string) (string, error) {
	h := r.Header.Values(name)
	if len(h) > 1 || len(h) == 1 && h[0] == "" {
		p := problem(http.StatusBadRequest, control.CodeBadHeader, "the header "+name+" is there once, with something in it, or not at all")
		p.Field = name
		return "", p
	}
	if len(h) == 0 {
		return "", nil
	}
	return h[0], nil
}
