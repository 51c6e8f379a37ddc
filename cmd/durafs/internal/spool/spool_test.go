package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func row(n int) []byte { return fmt.Appendf(nil, "{\"n\":%d}\n", n) }

// Whatever the interleaving of appends and deliveries, rows come out once and
// in order, from a file and from memory.
func TestQueue(t *testing.T) {
	dir := t.TempDir()
	opened := 0
	rapid.Check(t, func(t *rapid.T) {
		var s *Spool
		if rapid.Bool().Draw(t, "file") {
			opened++
			s = Open(fmt.Sprint("spool-", opened), dir)
		} else {
			s = Open("nowhere")
		}
		defer s.Close()
		in, out := 0, 0
		for _, append := range rapid.SliceOf(rapid.Bool()).Draw(t, "steps") {
			if append {
				in++
				if !s.Append(row(in), 1) {
					t.Fatalf("row %d found no room", in)
				}
				continue
			}
			batch, err := s.Peek()
			if err != nil {
				t.Fatal(err)
			}
			for range bytes.Count(batch, []byte("\n")) {
				out++
			}
			var want []byte
			for n := out - bytes.Count(batch, []byte("\n")) + 1; n <= out; n++ {
				want = fmt.Appendf(want, "%s", row(n))
			}
			if !bytes.Equal(batch, want) {
				t.Fatalf("Peek = %q, want %q", batch, want)
			}
			s.Advance(batch)
		}
		if got := s.Rows(); got != uint64(in-out) {
			t.Fatalf("Rows = %d, want %d", got, in-out)
		}
	})
}

func TestFileIsPrivateAndGoesWhenEmpty(t *testing.T) {
	dir := t.TempDir()
	s := Open("s", dir)
	info, err := os.Stat(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	s.Append(row(1), 1)
	batch, _ := s.Peek()
	s.Advance(batch)
	if path, err := s.Close(); path != "" || err != nil {
		t.Errorf("Close = %q, %v", path, err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

// What was not delivered is left as plain rows, without what was.
func TestCloseKeepsWhatIsLeft(t *testing.T) {
	dir := t.TempDir()
	s := Open("s", dir)
	long := append(bytes.Repeat([]byte("x"), 200<<10), '\n')
	for range 12 {
		s.Append(long, 1)
	}
	for range 9 {
		batch, err := s.Peek()
		if err != nil || len(batch) != len(long) {
			t.Fatalf("Peek: %d bytes, %v", len(batch), err)
		}
		s.Advance(batch)
	}
	path, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(left, bytes.Repeat(long, 3)) {
		t.Errorf("left: %d bytes, want %d", len(left), 3*len(long))
	}
	if s.Append(row(1), 1) {
		t.Error("a closed spool took a row")
	}
}

func TestBound(t *testing.T) {
	s := newSpool(&memory{}, "", 10)
	if !s.Append([]byte("12345678\n"), 1) || s.Append([]byte("1\n"), 1) || !s.Append([]byte("\n"), 1) {
		t.Error("the bound is not where it should be")
	}
	batch, _ := s.Peek()
	s.Advance(batch)
	if !s.Append([]byte("12345678\n"), 1) {
		t.Error("no room after delivery")
	}
}

// Delivered rows take no disk space, so that the bound holds for the disk too.
func TestDeliveredRowsGiveTheirBlocksBack(t *testing.T) {
	s := Open("s", t.TempDir())
	defer s.Close()
	f := s.place.(*os.File)
	if unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096) != nil {
		t.Skip("the file system of TMPDIR cannot punch holes")
	}
	long := []byte(strings.Repeat("x", 128<<10-1) + "\n")
	s.Append(long, 1)
	for range 100 { // the queue is never empty
		s.Append(long, 1)
		batch, err := s.Peek()
		if err != nil {
			t.Fatal(err)
		}
		s.Advance(batch[:len(long)])
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if used := st.Blocks * 512; used > 2*holeBytes {
		t.Errorf("%d bytes in use for %d that wait", used, len(long))
	}
}

// fullDisk takes n writes.
type fullDisk struct {
	memory
	n int
}

func (d *fullDisk) WriteAt(p []byte, off int64) (int, error) {
	if d.n == 0 {
		return 0, syscall.ENOSPC
	}
	d.n--
	return d.memory.WriteAt(p, off)
}

func TestFullDiskRefusesButKeepsWhatItHas(t *testing.T) {
	d := &fullDisk{n: 1}
	s := newSpool(d, "", BytesMax)
	if !s.Append(row(1), 1) || s.Append(row(2), 1) {
		t.Fatal("a full disk was not noticed")
	}
	d.n = 1
	if !s.Append(row(3), 1) {
		t.Fatal("no row after the disk had space again")
	}
	batch, err := s.Peek()
	if want := append(row(1), row(3)...); err != nil || !bytes.Equal(batch, want) {
		t.Errorf("Peek = %q, %v, want %q", batch, err, want)
	}
}

func TestOpenFallsBack(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Open("s", "", filepath.Join(file, "below"), filepath.Join(dir, "new"))
	defer s.Close()
	if want := filepath.Join(dir, "new", "s"); s.path != want {
		t.Errorf("path %q, want %q", s.path, want)
	}
	again := Open("s", filepath.Join(dir, "new"))
	defer again.Close()
	if again.path != "" {
		t.Error("an existing file was taken over")
	}
	if _, err := create("", "s"); err == nil || errors.Is(err, os.ErrExist) {
		t.Errorf("create without a directory: %v", err)
	}
}
