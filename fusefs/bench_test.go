package fusefs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"durafs/runs"
	"durafs/view"
	"durafs/view/viewtest"
)

// endedRuns is a store of n runs that ended, each with one payload of a size.
func endedRuns(n, payloadBytes int) *view.View {
	s := viewtest.New(start)
	body := pattern(payloadBytes)
	for i := range n {
		ref := s.Start(viewtest.ID(i))
		s.Settle(ref, body)
	}
	return view.New(s, nil)
}

// BenchmarkListLong is ls -l of 100,000 names, the first time and again; the
// floor is a directory of the temporary file system.
func BenchmarkListLong(b *testing.B) {
	const n = 100_000
	list := func(b *testing.B, dir string, drop bool) {
		for b.Loop() {
			if drop {
				b.StopTimer()
				dropCaches(b)
				b.StartTimer()
			}
			if out, err := exec.Command("sh", "-c", "LC_ALL=C ls -l "+dir+" | tail -1").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	}
	native := b.TempDir()
	for i := range n {
		if err := os.Mkdir(filepath.Join(native, viewtest.ID(i)), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	mnt, _ := mount(b, endedRuns(n, 0))
	for _, c := range []struct{ name, dir string }{{"native", native}, {"mount", mnt + "/runs"}} {
		b.Run(c.name+"/first", func(b *testing.B) { list(b, c.dir, true) })
		b.Run(c.name+"/again", func(b *testing.B) { list(b, c.dir, false) })
	}
}

func dropCaches(b *testing.B) {
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0o200); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOpenReadClose reads 4 KiB files whole, by three system calls each.
func BenchmarkOpenReadClose(b *testing.B) {
	const n = 1000
	s := viewtest.New(start)
	ref := s.Start(viewtest.ID(1))
	native := b.TempDir()
	for i := range n {
		s.Put(ref, fmt.Sprint(i), runs.SourceNamed, pattern(4096))
		if err := os.WriteFile(filepath.Join(native, fmt.Sprint(i)), pattern(4096), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s.Append(ref, string(pattern(4095)))
	mnt, _ := mount(b, view.New(s, nil))
	read := func(b *testing.B, name func(i int) string) {
		buf := make([]byte, 8192)
		for i := 0; b.Loop(); i++ {
			fd, err := unix.Open(name(i%n), unix.O_RDONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			if got, err := unix.Read(fd, buf); got != 4096 {
				b.Fatal(got, err)
			}
			unix.Close(fd)
		}
	}
	in := func(dir string) func(int) string { return func(i int) string { return fmt.Sprint(dir, "/", i) } }
	b.Run("native", func(b *testing.B) { read(b, in(native)) })
	b.Run("payload", func(b *testing.B) { read(b, in(runDir(mnt, 1)+"/payloads")) })
	b.Run("live log", func(b *testing.B) { read(b, func(int) string { return runDir(mnt, 1) + "/log" }) })
}

// BenchmarkRead reads one large payload from the start to the end, the first
// time and from the page cache.
func BenchmarkRead(b *testing.B) {
	const size = 64 << 20
	s := viewtest.New(start)
	ref := s.Start(viewtest.ID(1))
	body := pattern(size)
	s.Put(ref, "big", runs.SourceNamed, body)
	native := filepath.Join(b.TempDir(), "big")
	if err := os.WriteFile(native, body, 0o600); err != nil {
		b.Fatal(err)
	}
	mnt, _ := mount(b, view.New(s, nil))
	for _, c := range []struct {
		name, file string
		cold       bool
	}{
		{"native/cached", native, false},
		{"mount/first", runDir(mnt, 1) + "/payloads/big", true},
		{"mount/cached", runDir(mnt, 1) + "/payloads/big", false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(size)
			buf := make([]byte, 128<<10)
			for b.Loop() {
				f, err := os.Open(c.file)
				if err != nil {
					b.Fatal(err)
				}
				if c.cold {
					b.StopTimer()
					unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
					b.StartTimer()
				}
				for {
					if n, _ := f.Read(buf); n == 0 {
						break
					}
				}
				f.Close()
			}
		})
	}
}

// BenchmarkRunsDirectory lists the first names of a million runs.
func BenchmarkRunsDirectory(b *testing.B) {
	v := endedRuns(1_000_000, 0)
	mnt, _ := mount(b, v)
	b.ResetTimer()
	for b.Loop() {
		if out, err := exec.Command("sh", "-c", "ls -U "+mnt+"/runs | head -5").CombinedOutput(); err != nil || len(out) < 100 {
			b.Fatalf("%v: %s", err, out)
		}
	}
}
