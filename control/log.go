package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Log reads rows of a run's log. Errors of the first request are returned
// here. The caller closes the reader.
func (c *Client) Log(ctx context.Context, id string, q LogQuery) (*LogReader, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &LogReader{c: c, ctx: ctx, cancel: cancel, id: id, q: q}
	if err := l.open(); err != nil {
		cancel()
		return nil, err
	}
	return l, nil
}

// LogReader reads the rows of a log, in order, each once: when the connection
// breaks or the daemon is restarted it goes on behind the last whole row that
// it gave, and waits for the client's Patience for the daemon to come back. It
// is for one goroutine; Close may be called from another.
type LogReader struct {
	c      *Client
	ctx    context.Context
	cancel context.CancelFunc
	id     string
	q      LogQuery
	body   io.ReadCloser
	r      *bufio.Reader
	line   []byte
	last   uint64 // seq of the last row given
}

// Next returns the next row: one line without its newline, valid until the
// next call. io.EOF is the end: of the log as it was, or with Follow of the
// finished run's.
func (l *LogReader) Next() ([]byte, error) {
	for {
		line, err := l.readLine()
		if err == nil {
			l.last = max(l.last, RowSeq(line))
			return line, nil
		}
		if err == io.EOF {
			return nil, io.EOF
		}
		if err := l.reopen(err); err != nil {
			return nil, err
		}
	}
}

// Close ends the reading.
func (l *LogReader) Close() error {
	l.cancel()
	return nil
}

func (l *LogReader) readLine() ([]byte, error) {
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case err == nil && len(l.line) == 0:
			return part[:len(part)-1], nil
		case err == nil:
			l.line = append(l.line, part[:len(part)-1]...)
			return l.line, nil
		case err == bufio.ErrBufferFull:
			l.line = append(l.line, part...)
		case err == io.EOF && len(l.line)+len(part) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

func (l *LogReader) open() error {
	k := &call{method: http.MethodGet, path: runPath(l.id, "log"), query: l.q.values(), repeatable: true}
	resp, err := l.c.do(l.ctx, k)
	if err != nil {
		return err
	}
	l.body = resp.Body // ends with l.ctx
	l.r = bufio.NewReaderSize(resp.Body, 64<<10)
	return nil
}

// reopen goes on behind the last row given, after err.
func (l *LogReader) reopen(err error) error {
	l.body.Close()
	if l.last > 0 {
		l.q.From, l.q.Tail = l.last+1, 0
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.c.patience())
	defer cancel()
	var wait backoff
	for {
		if wait.sleep(ctx, err) != nil {
			return err
		}
		openErr := l.open()
		if openErr == nil || !isAway(openErr) {
			return openErr
		}
		err = openErr
	}
}

// isAway reports whether waiting for the daemon may help: nobody listens, it
// is going down, or the connection broke.
func isAway(err error) bool {
	var p *Problem
	if errors.As(err, &p) {
		return p.Status == http.StatusServiceUnavailable
	}
	return errors.Is(err, ErrAway) || errors.Is(err, errBroken)
}

func (q LogQuery) values() url.Values {
	v := url.Values{}
	if q.From > 0 {
		v.Set("from", strconv.FormatUint(q.From, 10))
	}
	if q.Tail > 0 {
		v.Set("tail", strconv.Itoa(q.Tail))
	}
	if q.Follow {
		v.Set("follow", "1")
	}
	return v
}

// rowPrefix is how every stored row begins, behind blanks that the agent may
// have put there.
var rowPrefix = []byte(`{"seq":`)

// RowSeq is the sequence number of a stored row, 0 if it has none.
func RowSeq(line []byte) uint64 {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), rowPrefix)
	if !ok {
		return 0
	}
	var n uint64
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}
