package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"durafs/internal/vfs"
	"durafs/runs"
)

// promises are what a store acknowledged in one life of a run, and what was
// tried. The first must be there at every later open, the others may.
type promises struct {
	id       string
	started  bool
	rows     []string // tried, in order; the first acked are promised
	acked    int
	payloads map[string][]byte // acknowledged
	settled  bool
	answer   []byte // the terminal payload, tried
}

// lifeOf leads the life of one run as far as the store lets it, and keeps what
// was promised. It goes on after errors, as an agent would.
func lifeOf(ctx context.Context, s *Store, seed uint64) *promises {
	p := &promises{payloads: map[string][]byte{}, id: fmt.Sprintf("exec_life-%d", seed)}
	owner := runs.Caller{Owner: true}
	st, err := s.Runs().Start(ctx, owner, runs.StartRequest{
		ID: p.id, Task: "live", ResumeRequest: randomBytes(seed, 20<<10), Labels: runs.Labels{"thread": "t"},
	})
	if err != nil {
		return p
	}
	p.started = true
	agent := runs.Caller{Writer: st.Writer}
	put := func(name string, n int) {
		b := randomBytes(seed+uint64(n), n)
		if _, _, err := s.Runs().Put(ctx, agent, p.id, name, runs.SourceNamed, "", bytes.NewReader(b)); err == nil {
			p.payloads[name] = b
		}
	}
	p.log(ctx, s, agent, 3, 10)
	put("small", 1000)
	put("chunk", 40<<10)
	p.log(ctx, s, agent, 1, 80<<10) // an oversized row
	put("large", 300<<10)
	s.Runs().Beat(ctx, agent, p.id, "")
	p.log(ctx, s, agent, 2, 10)
	p.answer = randomBytes(seed, 30<<10)
	_, err = s.Runs().Settle(ctx, agent, p.id, runs.SettleRequest{
		Status: runs.Success, Summary: "done", Payload: bytes.NewReader(p.answer),
	})
	p.settled = err == nil
	return p
}

// log appends n rows, one at a time. A row whose outcome is not known is
// followed by no other: nobody could tell them apart afterwards.
func (p *promises) log(ctx context.Context, s *Store, agent runs.Caller, n, size int) {
	for range n {
		if p.acked < len(p.rows) {
			return
		}
		row := fmt.Sprintf(`{"type":"t","n":%d,"pad":"%s"}`, len(p.rows), strings.Repeat("x", size))
		p.rows = append(p.rows, row)
		if _, err := s.Runs().Append(ctx, agent, p.id, []runs.Row{{JSON: []byte(row)}}, ""); err == nil {
			p.acked++
		}
	}
}

// check fails the test unless s holds everything that was promised, and
// nothing that was never tried.
func (p *promises) check(t *testing.T, s *Store) {
	t.Helper()
	ref, ok := s.Runs().Lookup(p.id)
	if !ok {
		if p.started {
			t.Fatalf("run %s was acknowledged and is gone", p.id)
		}
		return
	}
	p.checkRows(t, s, ref)
	for name, want := range p.payloads {
		if got := payload(t, s, ref, name); !bytes.Equal(got, want) {
			t.Fatalf("payload %s: %d bytes, not the %d that were acknowledged", name, len(got), len(want))
		}
	}
	record, err := s.Runs().Record(ref)
	if err != nil {
		t.Fatal(err)
	}
	if p.settled && record.Phase != "terminal" {
		t.Fatalf("the run was settled and is %s", record.Phase)
	}
	if record.Terminal != nil {
		if got := payload(t, s, ref, runs.TerminalName); !bytes.Equal(got, p.answer) {
			t.Fatalf("the terminal payload has %d bytes, not the %d that were given", len(got), len(p.answer))
		}
	}
}

// checkRows compares the agent's rows in the log with those tried: all that
// were acknowledged, in order, then at most the one whose outcome is unknown.
func (p *promises) checkRows(t *testing.T, s *Store, ref runs.Ref) {
	t.Helper()
	info, _ := s.Runs().Info(ref)
	log := make([]byte, info.LogBytes)
	if n, err := s.Runs().ReadLogAt(ref, log, 0); n != len(log) || err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("reading the log: %d of %d bytes: %v", n, len(log), err)
	}
	mine := 0
	for i, line := range strings.SplitAfter(strings.TrimSuffix(string(log), "\n"), "\n") {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"seq":%d,`, i+1)) {
			t.Fatalf("line %d of the log has not seq %d: %.80s", i+1, i+1, line)
		}
		if !strings.Contains(line, `"type":"t"`) {
			continue
		}
		if mine >= len(p.rows) {
			t.Fatalf("the log has a row that was never given: %.80s", line)
		}
		if len(p.rows[mine]) < 60<<10 && !strings.Contains(line, p.rows[mine][1:]) {
			t.Fatalf("row %d is %.80s, not %.80s", mine, line, p.rows[mine])
		}
		mine++
	}
	if mine < p.acked {
		t.Fatalf("%d rows were acknowledged, %d are there", p.acked, mine)
	}
}

func payload(t *testing.T, s *Store, ref runs.Ref, name string) []byte {
	t.Helper()
	r, err := s.Runs().OpenPayload(ref, name)
	if err != nil {
		t.Fatalf("payload %s: %v", name, err)
	}
	b := make([]byte, r.Size())
	if n, err := r.ReadAt(b, 0); n != len(b) || err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("payload %s: %d of %d bytes: %v", name, n, len(b), err)
	}
	return b
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}).Read(b)
	return b
}

func openFor(t *testing.T, fsys vfs.FS, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{FS: fsys, BeatWait: time.Microsecond, BallastBytes: 16 << 10})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}
