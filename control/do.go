package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// attemptsMax bounds how often one request is sent: with the waits below
	// it gives up after about three seconds.
	attemptsMax = 8
	backoffMin  = 25 * time.Millisecond
	backoffMax  = time.Second
	// answerBytesMax bounds an answer that is read as a whole.
	answerBytesMax = 64 << 20
	// problemBytesMax bounds a problem; one may have an outcome and its
	// projection in it.
	problemBytesMax = 4 << 20
)

// call is one request, in a form that can be sent again.
type call struct {
	method string
	path   string
	query  url.Values
	header http.Header
	// body makes the body for each attempt; nil for none.
	body func() (io.Reader, error)
	// bodyBytes is the body's length, -1 where it is not known.
	bodyBytes int64
	// repeatable says that carrying it out twice is carrying it out once.
	repeatable bool
}

// jsonCall is a call whose body is v as JSON.
func jsonCall(method, path string, v any) (*call, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return bytesCall(method, path, TypeJSON, b), nil
}

func bytesCall(method, path, contentType string, b []byte) *call {
	return &call{
		method: method, path: path,
		header:    http.Header{"Content-Type": {contentType}},
		body:      func() (io.Reader, error) { return bytes.NewReader(b), nil },
		bodyBytes: int64(len(b)),
	}
}

// answer sends the call and decodes the answer into v.
func (c *Client) answer(ctx context.Context, k *call, v any) (http.Header, error) {
	resp, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
	if err != nil {
		return nil, k.broken(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("control: %s %s: the answer is not what it should be: %w", k.method, k.path, err)
	}
	return resp.Header, nil
}

// do sends the call, again where that is safe, and returns an answer below
// 400, whose body the caller closes.
func (c *Client) do(ctx context.Context, k *call) (*http.Response, error) {
	var wait backoff
	for attempt := 1; ; attempt++ {
		resp, err := c.send(ctx, k)
		if err == nil {
			return resp, nil
		}
		if attempt == attemptsMax || ctx.Err() != nil || !k.mayRepeat(err) {
			return nil, err
		}
		if wait.sleep(ctx, err) != nil {
			return nil, err
		}
	}
}

// mayRepeat reports whether sending the call again after err cannot do
// anything twice and may help.
func (k *call) mayRepeat(err error) bool {
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p.Status == http.StatusServiceUnavailable && p.Retryable
	case errors.Is(err, ErrNoSocket):
		return false
	case errors.Is(err, ErrAway):
		return true
	}
	return k.repeatable && errors.Is(err, errBroken)
}

// errBroken marks a connection that broke in a call that may be repeated.
var errBroken = errors.New("the connection to the daemon broke")

// broken says what a connection that broke after sending means for k.
func (k *call) broken(err error) error {
	if k.repeatable {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// send sends the call one time.
func (c *Client) send(ctx context.Context, k *call) (*http.Response, error) {
	req, err := c.request(ctx, k)
	if err != nil {
		return nil, err
	}
	resp, err := c.connect().http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL of a socket says nothing
		}
		if errors.Is(err, ErrAway) {
			return nil, err
		}
		return nil, k.broken(err)
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readProblem(resp)
}

func (c *Client) request(ctx context.Context, k *call) (*http.Request, error) {
	var body io.Reader
	if k.body != nil {
		b, err := k.body()
		if err != nil {
			return nil, err
		}
		body = b
	}
	req, err := http.NewRequestWithContext(ctx, k.method, "http://durafs"+k.path, body)
	if err != nil {
		return nil, err
	}
	if k.body != nil {
		req.ContentLength = k.bodyBytes
	}
	for name, v := range k.header {
		req.Header[name] = v
	}
	if c.Writer != "" {
		req.Header.Set(HeaderWriter, c.Writer)
	}
	req.URL.RawQuery = k.query.Encode()
	return req, nil
}

// readProblem makes the error of an answer of 400 and above.
func readProblem(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, problemBytesMax))
	p := &Problem{}
	if resp.Header.Get("Content-Type") != TypeProblem || json.Unmarshal(b, p) != nil || p.Code == "" {
		return &Problem{
			Status: resp.StatusCode, Title: http.StatusText(resp.StatusCode), Code: CodeInternal,
			Detail: fmt.Sprintf("an answer that is not of this API: %.200q", b),
		}
	}
	p.Status = resp.StatusCode
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && p.RetryAfterMS == 0 {
		p.RetryAfterMS = int64(s) * 1000
	}
	return p
}

// backoff waits between attempts: doubling from backoffMin to backoffMax, half
// of it at random so that many clients do not come together, or for as long
// as the daemon said.
type backoff struct{ last time.Duration }

func (b *backoff) sleep(ctx context.Context, cause error) error {
	b.last = min(max(2*b.last, backoffMin), backoffMax)
	d := b.last/2 + rand.N(b.last/2+1)
	var p *Problem
	if errors.As(cause, &p) && p.RetryAfterMS > 0 {
		d = min(time.Duration(p.RetryAfterMS)*time.Millisecond, 2*backoffMax)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runPath is the path of something of a run; parts are escaped.
func runPath(id string, parts ...string) string {
	p := "/v1/runs/" + url.PathEscape(id)
	for _, s := range parts {
		p += "/" + url.PathEscape(s)
	}
	return p
}
