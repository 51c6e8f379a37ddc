package fusefs_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"durafs/runs"
	"durafs/view"
	"durafs/view/viewtest"
)

// dents lists an open directory from where it stands, with a buffer of a size.
func dents(t *testing.T, fd, size int, each func(name string, off int64) bool) {
	t.Helper()
	buf := make([]byte, size)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			t.Fatalf("getdents with %d bytes: %v", size, err)
		}
		if n == 0 {
			return
		}
		for b := buf[:n]; len(b) > 0; {
			off := *(*int64)(ptr(b, 8))
			reclen := *(*uint16)(ptr(b, 16))
			name, _, _ := strings.Cut(string(b[19:reclen]), "\x00")
			b = b[reclen:]
			if !each(name, off) {
				return
			}
		}
	}
}

func openDir(t *testing.T, name string) int {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestListingAtEveryBufferSize has names of every length, so that each kind of
// remainder is left in a buffer.
func TestListingAtEveryBufferSize(t *testing.T) {
	s := viewtest.New(start)
	ref := s.Start(viewtest.ID(1))
	want := map[string]bool{".": true, "..": true}
	for n := 1; n <= 255; n++ {
		name := strings.Repeat("n", n)
		s.Put(ref, name, runs.SourceNamed, nil)
		want[name] = true
	}
	mnt, _ := mount(t, view.New(s, nil))
	for size := 288; size < 70_000; size += size/7 + 8 {
		got := map[string]bool{}
		dents(t, openDir(t, runDir(mnt, 1)+"/payloads"), size, func(name string, _ int64) bool {
			if got[name] {
				t.Errorf("buffer of %d: %s twice", size, name)
			}
			got[name] = true
			return true
		})
		if !maps.Equal(got, want) {
			t.Errorf("buffer of %d: %d names, want %d", size, len(got), len(want))
		}
	}
}

// TestListingWhileRunsAppear lists with small buffers while runs are admitted:
// every run that was there at the start is listed, none twice.
func TestListingWhileRunsAppear(t *testing.T) {
	s := viewtest.New(start)
	for i := range 500 {
		s.Start(viewtest.ID(i))
		s.SetTime(start)
	}
	mnt, _ := mount(t, view.New(s, nil))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 500; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			s.Start(viewtest.ID(i))
			s.SetTime(start)
		}
	})
	for _, dir := range []string{"/runs", "/by-day/2026-03-01"} {
		for range 2 {
			got := map[string]int{}
			dents(t, openDir(t, mnt+dir), 1000, func(name string, _ int64) bool {
				got[name]++
				return len(got) < 1500
			})
			for name, n := range got {
				if n != 1 {
					t.Errorf("%s: %s is listed %d times", dir, name, n)
				}
			}
			for i := range 500 {
				if got[viewtest.ID(i)] == 0 {
					t.Errorf("%s: %s is missing", dir, viewtest.ID(i))
				}
			}
		}
	}
	close(stop)
	wg.Wait()
}

// TestSeekInDirectory goes to random places of a listing and on from there.
func TestSeekInDirectory(t *testing.T) {
	s := viewtest.New(start)
	for i := range 300 {
		s.Start(viewtest.ID(i))
	}
	mnt, _ := mount(t, view.New(s, nil))
	fd := openDir(t, mnt+"/runs")
	var names []string
	var offs []int64
	dents(t, fd, 4096, func(name string, off int64) bool {
		names, offs = append(names, name), append(offs, off)
		return true
	})
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		at := r.IntN(len(names) + 1)
		var off int64
		if at > 0 {
			off = offs[at-1]
		}
		if _, err := unix.Seek(fd, off, unix.SEEK_SET); err != nil {
			t.Fatal(err)
		}
		var rest []string
		dents(t, fd, 300+r.IntN(3000), func(name string, _ int64) bool {
			rest = append(rest, name)
			return len(rest) < 20
		})
		if want := names[at:min(at+20, len(names))]; !slices.Equal(rest, want) {
			t.Fatalf("from %d (offset %d): %v, want %v", at, off, rest, want)
		}
	}
}

func TestPayloadNames(t *testing.T) {
	s := viewtest.New(start)
	ref := s.Start(viewtest.ID(1))
	names := []string{"a b", "100 %", "-rf", "naïve", "x\u202ey", "*", "$(id)", "a\\b", strings.Repeat("%", 255), strings.Repeat("ü", 127), ".row-1"}
	for i, n := range names {
		s.Put(ref, n, runs.SourceNamed, fmt.Append(nil, i))
	}
	mnt, _ := mount(t, view.New(s, nil))
	list, err := os.ReadDir(runDir(mnt, 1) + "/payloads")
	if err != nil || len(list) != len(names) {
		t.Fatalf("%d names, %v", len(list), err)
	}
	for _, e := range list {
		b, err := os.ReadFile(runDir(mnt, 1) + "/payloads/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		var i int
		fmt.Sscan(string(b), &i)
		if plain, ok := view.UnescapeName(e.Name()); ok && plain != names[i] {
			t.Errorf("%q holds what %q was given", e.Name(), names[i])
		} else if !ok && e.Name() != fmt.Sprintf("%%payload-%d", i) {
			t.Errorf("%q is neither a name nor a number", e.Name())
		}
	}
}
