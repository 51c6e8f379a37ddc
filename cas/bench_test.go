package cas

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"durafs/internal/vfs"
)

// The figures are ratios of the floor's time to ours, measured in turns.

const benchBytes = 256 << 20

// stream gives n bytes that do not repeat, made of one block.
type stream struct {
	block []byte
	n, at int
}

func (s *stream) Read(p []byte) (int, error) {
	if s.at == s.n {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.n-s.at)], s.block[s.at%len(s.block):])
	// Each chunk differs from the others.
	for i := 0; i+8 <= n; i += 16 << 10 {
		copy(p[i:], fmt.Sprintf("%08x", s.at+i))
	}
	s.at += n
	return n, nil
}

func BenchmarkPut(b *testing.B) {
	b64 := []byte(base64.StdEncoding.EncodeToString(noise(3, 6<<20)))
	for _, c := range []struct {
		name  string
		block []byte
	}{{"noise", noise(1, 8<<20)}, {"text", text(2, 8<<20)}, {"base64", b64}} {
		b.Run(c.name, func(b *testing.B) {
			var ratios []float64
			for b.Loop() {
				floor := streamFloor(b, &stream{block: c.block, n: benchBytes})
				l := &fakeLedger{}
				s := open(b, options(b, l, b.TempDir()))
				start := time.Now()
				if _, err := s.Put(b.Context(), &stream{block: c.block, n: benchBytes}); err != nil {
					b.Fatal(err)
				}
				took := time.Since(start)
				s.Close()
				ratios = append(ratios, floor.Seconds()/took.Seconds())
				b.ReportMetric(benchBytes/took.Seconds()/1e6, "MB/s")
				b.ReportMetric(float64(s.Stats().RecordBytes)/benchBytes, "stored")
				os.RemoveAll(s.dir)
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "of-floor")
			b.Logf("ratios %.2f", ratios)
		})
	}
}

// streamFloor is a sequential write of 1 MiB at a time and one fdatasync.
func streamFloor(b *testing.B, r io.Reader) time.Duration {
	name := filepath.Join(b.TempDir(), "floor")
	f, err := vfs.OS.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(name)
	defer f.Close()
	start := time.Now()
	buf := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := io.ReadFull(r, buf)
		if n == 0 {
			break
		}
		if _, werr := f.WriteAt(buf[:n], off); werr != nil {
			b.Fatal(werr)
		}
		off += int64(n)
		if err != nil {
			break
		}
	}
	if err := f.Datasync(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func BenchmarkRead(b *testing.B) {
	for name, block := range map[string][]byte{"noise": noise(1, 8<<20), "text": text(2, 8<<20)} {
		for _, size := range []int{32 << 10, 128 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				l := &fakeLedger{}
				s := open(b, options(b, l, b.TempDir()))
				const total = 64 << 20
				data, _ := io.ReadAll(&stream{block: block, n: total})
				ref := mustPut(b, s, data)
				plain := filepath.Join(b.TempDir(), "plain")
				if err := os.WriteFile(plain, data, 0o600); err != nil {
					b.Fatal(err)
				}
				native, err := os.Open(plain)
				if err != nil {
					b.Fatal(err)
				}
				defer native.Close()
				r, err := s.Open(ref)
				if err != nil {
					b.Fatal(err)
				}
				var ratios []float64
				var took time.Duration
				for b.Loop() {
					floor := readThrough(b, native, total, size)
					took = readThrough(b, r, total, size)
					ratios = append(ratios, floor.Seconds()/took.Seconds())
				}
				slices.Sort(ratios)
				b.ReportMetric(total/took.Seconds()/1e6, "MB/s")
				b.ReportMetric(ratios[len(ratios)/2], "of-native")
			})
		}
	}
}

func readThrough(b *testing.B, r io.ReaderAt, total, size int) time.Duration {
	buf := make([]byte, size)
	start := time.Now()
	for off := 0; off < total; off += size {
		if n, err := r.ReadAt(buf, int64(off)); n != size {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

func BenchmarkPutSmall(b *testing.B) {
	for _, size := range []int{20_000, 65536, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := &fakeLedger{}
			s := open(b, options(b, l, b.TempDir()))
			seed := uint64(0)
			data := noise(1, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				seed++
				copy(data, fmt.Sprintf("%016x", seed))
				if _, err := s.Put(b.Context(), bytes.NewReader(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCommitsBesideAPut is what a log beside has of a large payload that
// comes in: the latency of writing 1 KiB to blocks that exist, and syncing it.
func BenchmarkCommitsBesideAPut(b *testing.B) {
	for name, block := range map[string][]byte{"noise": noise(1, 8<<20), "text": text(2, 8<<20)} {
		b.Run(name, func(b *testing.B) {
			var count atomic.Uint64
			o := options(b, &fakeLedger{}, b.TempDir())
			o.Others = count.Load
			s := open(b, o)
			f, err := vfs.OS.Create(filepath.Join(b.TempDir(), "log"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(make([]byte, 8<<20), 0); err != nil {
				b.Fatal(err)
			}
			var alone, beside []time.Duration
			for seed := 0; b.Loop(); seed++ {
				alone = append(alone, commits(b, f, &count, time.After(500*time.Millisecond))...)
				done := make(chan time.Time)
				go func() {
					defer close(done)
					copy(block, fmt.Sprint(seed))
					if _, err := s.Put(b.Context(), &stream{block: block, n: benchBytes}); err != nil {
						b.Error(err)
					}
				}()
				beside = append(beside, commits(b, f, &count, done)...)
			}
			slices.Sort(alone)
			slices.Sort(beside)
			for _, q := range []int{50, 99} {
				a, w := alone[len(alone)*q/100], beside[len(beside)*q/100]
				b.ReportMetric(a.Seconds()*1e6, fmt.Sprintf("p%d-alone-µs", q))
				b.ReportMetric(w.Seconds()/a.Seconds(), fmt.Sprintf("p%d-ratio", q))
			}
		})
	}
}

// commits commits until done, and tells how long each took.
func commits(b *testing.B, f vfs.File, count *atomic.Uint64, done <-chan time.Time) (took []time.Duration) {
	buf := make([]byte, 1024)
	for off := int64(0); ; off = (off + 1024) % (8 << 20) {
		select {
		case <-done:
			return took
		default:
		}
		start := time.Now()
		if _, err := f.WriteAt(buf, off); err != nil {
			b.Fatal(err)
		}
		if err := f.Datasync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		count.Add(1)
	}
}
