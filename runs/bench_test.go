package runs

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkAppend is rows of 1 KiB, one per request, made durable on the disk
// of TMPDIR, by one and by many writers, each with its own run.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			w := newWorldAt(b, b.TempDir())
			defer w.close()
			row := rowsOf(`{"type":"message","text":"` + strings.Repeat("x", 1000) + `"}`)
			agents := make([]*agent, writers)
			for i := range agents {
				agents[i] = w.start(StartRequest{})
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, a := range agents {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := w.s.Append(ctx, a.c, a.id, row, ""); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkAppendCPU is what an append costs beside the disk: the same in
// memory, 64 rows a request.
func BenchmarkAppendCPU(b *testing.B) {
	w := newWorld(b)
	row := `{"type":"message","text":"` + strings.Repeat("x", 1000) + `"}`
	rows := rowsOf(strings.Split(strings.Repeat(row+"\n", 64), "\n")[:64]...)
	a := w.start(StartRequest{})
	b.SetBytes(int64(64 * len(row)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.s.Append(ctx, a.c, a.id, rows, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadLog reads a log of small rows from its beginning to its end.
func BenchmarkReadLog(b *testing.B) {
	w := newWorld(b)
	a := w.start(StartRequest{})
	for i := range 2000 {
		a.mustAppend(fmt.Sprintf(`{"type":"line","i":%d,"text":"%s"}`, i, strings.Repeat("x", 100)))
	}
	run := w.info(a.id)
	buf := make([]byte, 128<<10)
	b.SetBytes(run.LogBytes)
	for b.Loop() {
		for off := int64(0); off < run.LogBytes; off += int64(len(buf)) {
			if n, _ := w.s.ReadLogAt(run.Ref, buf, off); n == 0 {
				b.Fatal("nothing was read")
			}
		}
	}
}

func BenchmarkScanRow(b *testing.B) {
	row := []byte(`{"type":"message","time":"2026-01-01T00:00:00Z","content":[{"text":"` + strings.Repeat("some text ", 90) + `","n":12345}]}`)
	b.SetBytes(int64(len(row)))
	b.ReportAllocs()
	for b.Loop() {
		if _, r := scanRow(row, ""); r != nil {
			b.Fatal(r)
		}
	}
}

// BenchmarkReplay applies the batches of whole lives of runs: started, ten
// rows of 1 KiB, settled.
func BenchmarkReplay(b *testing.B) {
	w := newWorld(b)
	for range 50 {
		a := w.start(StartRequest{Labels: Labels{"thread": "T", "task_id": "17"}, Task: "some task"})
		for range 10 {
			a.mustAppend(`{"type":"message","text":"` + strings.Repeat("x", 1000) + `"}`)
		}
		a.mustSettle("answer")
	}
	w.reopen()
	total := int64(0)
	for _, f := range w.frames {
		total += int64(len(f.Payload))
	}
	b.SetBytes(total)
	b.ReportAllocs()
	for b.Loop() {
		s := New(Options{})
		for _, f := range w.frames {
			if err := s.Replay(f); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/50, "ns/run")
}
