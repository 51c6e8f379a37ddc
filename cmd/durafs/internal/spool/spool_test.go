package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"durafs/internal/need"
)

func row(n uint64) []byte { return fmt.Appendf(nil, "{\"n\":%d}\n", n) }

// Whatever the interleaving of appends, reads, acknowledgements and broken
// connections, rows come out in order, from a file and from memory.
func TestQueue(t *testing.T) {
	dir := t.TempDir()
	opened := 0
	rapid.Check(t, func(t *rapid.T) {
		s := Open("nowhere")
		if rapid.Bool().Draw(t, "file") {
			opened++
			s = Open(fmt.Sprint("spool-", opened), dir)
		}
		defer s.Close()
		var appended, read, acked uint64
		for _, step := range rapid.SliceOf(rapid.IntRange(0, 3)).Draw(t, "steps") {
			switch step {
			case 0:
				appended++
				if !s.Append(row(appended), 1) {
					t.Fatalf("row %d found no room", appended)
				}
			case 1:
				if read == appended {
					continue
				}
				got, count, err := s.ReadRows(t.Context(), read+1, nil, 20)
				if err != nil {
					t.Fatal(err)
				}
				var want []byte
				for range count {
					read++
					want = append(want, row(read)...)
				}
				if count == 0 || !bytes.Equal(got, want) {
					t.Fatalf("ReadRows = %q, want %q", got, want)
				}
			case 2:
				acked = rapid.Uint64Range(acked, read).Draw(t, "acked")
				if err := s.Ack(acked); err != nil {
					t.Fatal(err)
				}
			case 3:
				read = acked // the connection broke
			}
			if got := s.Rows(); got != appended-acked {
				t.Fatalf("Rows = %d, want %d", got, appended-acked)
			}
		}
		s.End()
		if read == appended {
			if _, _, err := s.ReadRows(t.Context(), read+1, nil, 20); err != io.EOF {
				t.Fatalf("behind the end: %v", err)
			}
		}
	})
}

func TestReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Open("nowhere")
		got := make(chan string)
		read := func(ctx context.Context, n uint64) {
			rows, _, err := s.ReadRows(ctx, n, nil, 1<<10)
			got <- fmt.Sprintf("%s%v", rows, err)
		}
		go read(t.Context(), 1)
		synctest.Wait()
		s.Append(row(1), 1)
		if g := <-got; g != "{\"n\":1}\n<nil>" {
			t.Errorf("after an append: %q", g)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go read(ctx, 2)
		synctest.Wait()
		cancel()
		if g := <-got; g != "context canceled" {
			t.Errorf("after the context: %q", g)
		}
		go read(t.Context(), 2)
		synctest.Wait()
		s.End()
		if g := <-got; g != "EOF" {
			t.Errorf("after the end: %q", g)
		}
	})
}

func TestLongRow(t *testing.T) {
	s := Open("nowhere")
	long := append(bytes.Repeat([]byte("x"), 3*stepBytes), '\n')
	s.Append(append(long, row(2)...), 2)
	rows, count, err := s.ReadRows(t.Context(), 1, nil, 10)
	if err != nil || !bytes.HasPrefix(rows, long) {
		t.Fatalf("%d bytes, %d rows, %v", len(rows), count, err)
	}
	if err := s.Ack(2); err != nil || s.Rows() != 0 {
		t.Errorf("Ack: %v, %d rows wait", err, s.Rows())
	}
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
	if err := s.Ack(1); err != nil {
		t.Fatal(err)
	}
	if path, err := s.Close(); path != "" || err != nil {
		t.Errorf("Close = %q, %v", path, err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

// What was not delivered is left as plain rows, without what was.
func TestCloseKeepsWhatIsLeft(t *testing.T) {
	s := Open("s", t.TempDir())
	long := append(bytes.Repeat([]byte("x"), 200<<10), '\n')
	for range 12 {
		s.Append(long, 1)
	}
	if err := s.Ack(9); err != nil {
		t.Fatal(err)
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
	s.Ack(2)
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
		need.Missing(t, "a TMPDIR whose file system can punch holes")
	}
	long := []byte(strings.Repeat("x", 128<<10-1) + "\n")
	s.Append(long, 1)
	for n := range uint64(100) { // the queue is never empty
		s.Append(long, 1)
		if err := s.Ack(n + 1); err != nil {
			t.Fatal(err)
		}
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
	rows, _, err := s.ReadRows(t.Context(), 1, nil, 1<<10)
	if want := append(row(1), row(3)...); err != nil || !bytes.Equal(rows, want) {
		t.Errorf("rows %q, %v, want %q", rows, err, want)
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
