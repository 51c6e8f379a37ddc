package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"durafs/control"
	"durafs/runs"
)

// TestLongHistory reads the history of 10,000 calls over the socket: it comes
// line by line, and what the daemon and the client hold meanwhile does not grow
// with it.
func TestLongHistory(t *testing.T) {
	calls := 10_000
	if testing.Short() {
		calls = 2_000
	}
	d := serveStore(t)
	started, err := d.store.Runs().Start(t.Context(), runs.Caller{}, runs.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	shown := []byte(`{"v":1,"status":"ok","parts":[{"kind":"text","text":"` + strings.Repeat("h", 4000) + `"}]}`)
	if err := makeCalls(t.Context(), d.store.Runs(), started, calls, shown); err != nil {
		t.Fatal(err)
	}
	h, err := d.client().History(t.Context(), started.Record.ID, control.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const heldMax = 8 << 20
	before, most := heapNow(), uint64(0)
	n, lines := 0, 0
	for buf := make([]byte, 64<<10); ; {
		got, err := h.Read(buf)
		n, lines = n+got, lines+bytes.Count(buf[:got], []byte("\n"))
		if n>>21 != (n-got)>>21 {
			most = max(most, heapNow())
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d lines, %d bytes; the heap went from %d to %d bytes", lines, n, before, most)
	if lines != calls || n < calls*4000 {
		t.Errorf("%d lines, %d bytes", lines, n)
	}
	if most == 0 || most > before+heldMax {
		t.Errorf("the heap went from %d to %d bytes", before, most)
	}
}

// makeCalls claims calls and commits what became of them, many at a time.
func makeCalls(ctx context.Context, s *runs.Store, of runs.Started, calls int, shown []byte) error {
	const agents = 8 // each changes the record, and who is overtaken too often is told busy
	var (
		next   atomic.Int64
		done   sync.WaitGroup
		failed = make([]error, agents)
		caller = runs.Caller{Writer: of.Writer}
	)
	for i := range agents {
		done.Go(func() {
			for n := next.Add(1); n <= int64(calls) && failed[i] == nil; n = next.Add(1) {
				claimed, err := s.Claim(ctx, caller, of.Record.ID, runs.ClaimRequest{CallID: fmt.Sprint("c", n), Name: "tool", Safety: []byte(`"read-only"`)})
				if err == nil {
					_, err = s.Outcome(ctx, caller, of.Record.ID, runs.OutcomeRequest{
						Call: claimed.Call, Outcome: []byte(`{"ok":true}`),
						Projection: func(context.Context) ([]byte, error) { return shown, nil },
					})
				}
				failed[i] = err
			}
		})
	}
	done.Wait()
	return errors.Join(failed...)
}

// heapNow is what lives on the heap, garbage apart.
func heapNow() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
