package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"durafs/control"
)

const (
	killStreamRowsMax   = 64
	killPayloadBytesMax = 200 << 10
)

// killClient is one agent with one run. It sends one request at a time and
// keeps what it was told: rows holds what must be in the log.
type killClient struct {
	t   *testing.T
	n   int
	rnd *rand.Rand
	c   *control.Client
	id  string

	made int      // rows made so far: each is different
	rows []string // acknowledged, or found after nobody had answered
	// doubt are rows that nobody answered for: of these a beginning may be
	// in the log, behind rows.
	doubt []string

	payloads map[string]payload

	// Everything up to the row seq was compared: the first compared of rows.
	seq      uint64
	compared int
}

type payload struct {
	bytes    []byte
	acked    bool
	compared bool
}

func (c *killClient) start(ctx context.Context) error {
	never := int64(0)
	s, err := c.c.Start(ctx, control.StartRequest{LeaseMS: &never})
	if err != nil {
		return err
	}
	c.id, c.c = s.Record.ID, c.c.WithWriter(s.Writer)
	return nil
}

// write writes until something is not answered any more.
func (c *killClient) write(ctx context.Context, round int) {
	for i := 0; len(c.doubt) == 0 && ctx.Err() == nil; i++ {
		switch c.rnd.IntN(8) {
		case 0:
			if !c.put(ctx, payloadName(round, i)) {
				return
			}
		case 1, 2:
			c.stream(ctx)
		default:
			c.append(ctx)
		}
	}
}

// row makes a row that is like no other; now and then a long one.
func (c *killClient) row() string {
	c.made++
	size := c.rnd.IntN(300)
	if c.rnd.IntN(50) == 0 {
		size = c.rnd.IntN(40 << 10)
	}
	return fmt.Sprintf(`{"type":"note","i":%d,"text":"%s"}`, c.made, strings.Repeat(`é\u0000<`, size/8))
}

func (c *killClient) append(ctx context.Context) {
	row := c.row()
	_, err := c.c.Append(ctx, c.id, []byte(row), "")
	switch {
	case err == nil:
		c.rows = append(c.rows, row)
	case mayHaveHappened(err):
		c.doubt = append(c.doubt, row)
	default:
		c.t.Errorf("client %d: a row was refused: %v", c.n, err)
		c.doubt = append(c.doubt, row)
	}
}

// stream sends several rows in one request: what is acknowledged is counted,
// for the rest nobody answered.
func (c *killClient) stream(ctx context.Context) {
	var rows []string
	for range 1 + c.rnd.IntN(killStreamRowsMax) {
		rows = append(rows, c.row())
	}
	ack, err := c.c.Stream(ctx, c.id, "", strings.NewReader(strings.Join(rows, "\n")+"\n"), nil)
	if err == nil && ack.Acked != uint64(len(rows)) {
		c.t.Errorf("client %d: %d rows of %d were acknowledged, and no error", c.n, ack.Acked, len(rows))
	}
	if err != nil && !mayHaveHappened(err) {
		c.t.Errorf("client %d: a stream was refused: %v", c.n, err)
	}
	c.rows = append(c.rows, rows[:ack.Acked]...)
	c.doubt = append(c.doubt, rows[ack.Acked:]...)
}

func (c *killClient) put(ctx context.Context, name string) bool {
	size := c.rnd.IntN(2 << 10)
	if c.rnd.IntN(4) == 0 {
		size = c.rnd.IntN(killPayloadBytesMax)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(c.rnd.Uint32())
	}
	p, err := c.c.Put(ctx, c.id, name, "", bytes.NewReader(b))
	if err != nil && !mayHaveHappened(err) {
		c.t.Errorf("client %d: payload %s was refused: %v", c.n, name, err)
	}
	if err == nil && p.Payload.B3 != b3(b) {
		c.t.Errorf("client %d: payload %s has id %s, want %s", c.n, name, p.Payload.B3, b3(b))
	}
	c.payloads[name] = payload{bytes: b, acked: err == nil}
	return err == nil
}

// mayHaveHappened reports whether err leaves open what became of a request to
// a daemon that was killed.
func mayHaveHappened(err error) bool {
	var p *control.Problem
	return !errors.As(err, &p) || errors.Is(err, control.ErrOutcomeUnknown)
}

func b3(b []byte) string {
	sum := blake3.Sum256(b)
	return fmt.Sprintf("%x", sum[:])
}

// comeBack attaches to the daemon that was restarted and compares: what is new,
// or everything.
func (c *killClient) comeBack(ctx context.Context, everything bool) error {
	if _, err := c.c.Attach(ctx, c.id, control.AttachRequest{}); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	if everything {
		c.forget()
	}
	if err := c.checkLog(ctx); err != nil {
		return err
	}
	return c.checkPayloads(ctx)
}

// forget lets the next comparison be one of everything.
func (c *killClient) forget() {
	c.seq, c.compared = 0, 0
	for name, p := range c.payloads {
		p.compared = false
		c.payloads[name] = p
	}
}

// checkLog compares the log with what the client knows, and settles what was
// in doubt.
func (c *killClient) checkLog(ctx context.Context) error {
	l, err := c.c.Log(ctx, c.id, control.LogQuery{From: c.seq + 1})
	if err != nil {
		return err
	}
	defer l.Close()
	want := slices.Concat(c.rows, c.doubt)
	found := c.compared
	seq := c.seq + 1
	for ; ; seq++ {
		line, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		row, ok := strings.CutPrefix(string(line), fmt.Sprintf(`{"seq":%d,`, seq))
		if !ok {
			return fmt.Errorf("line %d of the log does not have that seq: %.100q", seq, line)
		}
		if strings.HasPrefix(row, `"by":"store"`) {
			continue
		}
		if found == len(want) {
			return fmt.Errorf("seq %d was never sent: %.100q", seq, row)
		}
		if "{"+row != want[found] {
			return fmt.Errorf("seq %d is %.100q, want %.100q", seq, row, want[found])
		}
		found++
	}
	if found < len(c.rows) {
		return fmt.Errorf("of %d acknowledged rows there are %d", len(c.rows), found)
	}
	c.rows, c.doubt = want[:found:found], nil
	c.seq, c.compared = seq-1, found
	return nil
}

// checkPayloads compares all payloads, and settles which are there.
func (c *killClient) checkPayloads(ctx context.Context) error {
	for name, want := range maps.Clone(c.payloads) {
		if want.compared {
			continue
		}
		got, err := c.read(ctx, name)
		switch {
		case control.Code(err) == "unknown-payload" && !want.acked:
			delete(c.payloads, name)
			continue
		case err != nil:
			return fmt.Errorf("payload %s: %w", name, err)
		case !bytes.Equal(got, want.bytes):
			return fmt.Errorf("payload %s: %d bytes, not the %d that were put", name, len(got), len(want.bytes))
		}
		c.payloads[name] = payload{bytes: want.bytes, acked: true, compared: true}
	}
	return nil
}

func (c *killClient) read(ctx context.Context, name string) ([]byte, error) {
	r, err := c.c.Payload(ctx, c.id, name, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// settle ends the run with an answer that tells how many rows there are.
func (c *killClient) settle(ctx context.Context) error {
	_, err := c.c.Settle(ctx, c.id, control.SettleRequest{
		Status: control.Success, Payload: &control.TerminalPayload{Bytes: c.answer()},
	})
	return err
}

func (c *killClient) answer() []byte {
	b, err := json.Marshal(map[string]int{"rows": len(c.rows), "payloads": len(c.payloads)})
	if err != nil {
		panic(err)
	}
	return b
}

// checkSettled compares once more, after a last kill.
func (c *killClient) checkSettled(ctx context.Context) error {
	r, _, err := c.c.Get(ctx, c.id)
	if err != nil {
		return err
	}
	if r.Phase != control.PhaseTerminal || r.Terminal == nil || r.Terminal.Status != control.Success {
		return fmt.Errorf("the record of a settled run: %+v", r)
	}
	got, err := c.read(ctx, control.TerminalName)
	if err != nil || !bytes.Equal(got, c.answer()) || r.Terminal.Payload.B3 != b3(got) {
		return fmt.Errorf("the answer: %q, %w", got, err)
	}
	c.forget()
	return errors.Join(c.checkLog(ctx), c.checkPayloads(ctx))
}
