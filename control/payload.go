package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
)

// Put stores a payload under a name of the run and returns when it is durable
// and visible. A put of a reader that can seek is repeated when the connection
// breaks. The same bytes under the same name answer Replayed; other bytes are
// a problem. It needs a writer token.
func (c *Client) Put(ctx context.Context, id, name, contentType string, r io.Reader) (Put, error) {
	k, err := putCall(id, name, contentType, r)
	if err != nil {
		return Put{}, err
	}
	var p Put
	_, err = c.answer(ctx, k, &p)
	return p, err
}

// PutResult stores raw output of a tool, as Put does, as a payload that the
// call's outcome can name.
func (c *Client) PutResult(ctx context.Context, id, name, contentType string, r io.Reader) (Put, error) {
	k, err := putCall(id, name, contentType, r)
	if err != nil {
		return Put{}, err
	}
	k.query = url.Values{"source": {"tool_result"}}
	var p Put
	_, err = c.answer(ctx, k, &p)
	return p, err
}

func putCall(id, name, contentType string, r io.Reader) (*call, error) {
	k := &call{method: http.MethodPut, path: runPath(id, "payloads", name), header: http.Header{}, bodyBytes: -1}
	if contentType != "" {
		k.header.Set("Content-Type", contentType)
	}
	if s, ok := r.(io.Seeker); ok {
		return k, k.seekable(r, s)
	}
	k.once(r)
	return k, nil
}

// seekable lets the body be sent again from where the reader stands now.
func (k *call) seekable(r io.Reader, s io.Seeker) error {
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		k.once(r) // a pipe that says it can seek
		return nil
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var last *attempt
	k.repeatable = true
	k.bodyBytes = end - start
	k.body = func() (io.Reader, error) {
		last.end()
		_, err := s.Seek(start, io.SeekStart)
		last = &attempt{r: r}
		return last, err
	}
	return nil
}

// once lets the body be sent one time, but lets it be asked for again as long
// as nothing was read from it.
func (k *call) once(r io.Reader) {
	var last *attempt
	k.body = func() (io.Reader, error) {
		if last.end() {
			return nil, fmt.Errorf("%w, and the payload can be read only once", ErrOutcomeUnknown)
		}
		last = &attempt{r: r}
		return last, nil
	}
}

// attempt is a body for one attempt: net/http may read on in it when the
// attempt has failed already, which must not take bytes from the next one.
type attempt struct {
	mu    sync.Mutex // guards r, held while it is read
	r     io.Reader
	read  bool
	ended bool
}

func (a *attempt) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return 0, io.ErrClosedPipe
	}
	a.read = true
	return a.r.Read(p)
}

// end ends an attempt, if there was one, and reports whether something was
// read in it.
func (a *attempt) end() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return a.read
}

// PayloadReader reads a payload. Bytes is how many bytes this answer has: the
// payload's, or the range's. It reads no further than that without an error.
type PayloadReader struct {
	io.ReadCloser
	B3          string
	ContentType string
	Bytes       int64
}

// Payload reads a payload of a run, TerminalName for its final answer, from
// byte off on; n bytes, or to the end where n is negative. The caller closes
// it.
func (c *Client) Payload(ctx context.Context, id, name string, off, n int64) (*PayloadReader, error) {
	k := &call{method: http.MethodGet, path: runPath(id, "payloads", name), header: http.Header{}, repeatable: true}
	if off > 0 || n >= 0 {
		k.header.Set("Range", byteRange(off, n))
	}
	resp, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	return &PayloadReader{
		ReadCloser:  resp.Body,
		B3:          unquote(resp.Header.Get("ETag")),
		ContentType: resp.Header.Get("Content-Type"),
		Bytes:       resp.ContentLength,
	}, nil
}

func byteRange(off, n int64) string {
	s := "bytes=" + strconv.FormatInt(off, 10) + "-"
	if n >= 0 {
		s += strconv.FormatInt(off+n-1, 10)
	}
	return s
}

func unquote(etag string) string {
	if len(etag) >= 2 && etag[0] == '"' && etag[len(etag)-1] == '"' {
		return etag[1 : len(etag)-1]
	}
	return etag
}
