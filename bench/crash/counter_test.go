package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"durafs/internal/vfs"
)

// count is a number that only grows, in a file of records: the last one that
// checks counts. It is what docs/testing.md shows a driver of.
type count struct {
	f      vfs.File
	n      uint64
	off    int64
	sloppy bool // a fault on purpose: nothing is synced
}

const recordBytes = 16

// counter is spelled as a package, as in the page.
var counter = struct {
	Open func(fsys vfs.FS, name string) (*count, error)
}{openCount}

// sloppyCount switches the fault on.
var sloppyCount bool

func record(n uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, n)
	return binary.LittleEndian.AppendUint64(b, 1<<32|uint64(crc32.Checksum(b, castagnoli)))
}

// openCount reads what the device has, and goes on in a file of its own:
//
//	create, write, fdatasync   a new file with the number
//	rename, fsync directory    from here on it is the counter
func openCount(fsys vfs.FS, name string) (*count, error) {
	dir, err := fsys.OpenDir(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	c := &count{sloppy: sloppyCount}
	if err := errors.Join(c.load(fsys, name), fsys.Remove(name+".tmp")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if c.f, err = fsys.Create(name + ".tmp"); err != nil {
		return nil, err
	}
	if err := errors.Join(c.put(), fsys.Rename(name+".tmp", name), dir.Sync()); err != nil {
		c.f.Close()
		return nil, err
	}
	return c, nil
}

func (c *count) load(fsys vfs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	b := make([]byte, size)
	if n, readErr := f.ReadUncachedAt(b, 0); n < len(b) && readErr != io.EOF {
		err = errors.Join(err, readErr)
	}
	for ; len(b) >= recordBytes; b = b[recordBytes:] {
		if n := binary.LittleEndian.Uint64(b); string(record(n)) == string(b[:recordBytes]) {
			c.n = n
		}
	}
	return err
}

func (c *count) put() error {
	if _, err := c.f.WriteAt(record(c.n), c.off); err != nil {
		return err
	}
	c.off += recordBytes
	if c.sloppy {
		return nil
	}
	return c.f.Datasync()
}

func (c *count) Value() uint64 { return c.n }

// Add is over with its first error.
func (c *count) Add(n uint64) (uint64, error) {
	c.n += n
	return c.n, c.put()
}

func (c *count) Close() error { return c.f.Close() }

func Counter() *Driver {
	return &Driver{Name: "counter", Doc: "a number that only grows", Live: func(l *Life) error {
		var promised uint64
		for _, p := range l.Promises() { // of all lives before this one
			promised = p.N
		}
		c, err := counter.Open(l.Disk, "/counter") // l.Disk is a vfs.FS
		if err != nil && l.Faulty {
			return nil // where calls fail it may refuse
		}
		if err != nil {
			return fmt.Errorf("open: %w", err) // opening needs no help after any crash
		}
		if c.Value() < promised {
			return fmt.Errorf("%d was acknowledged, %d is there", promised, c.Value())
		}
		l.Promise(Promise{What: "have", N: c.Value()}) // it was shown, so it stays
		for range 10 {
			n, err := c.Add(1) // returns when it is durable
			if err != nil && l.Faulty {
				break
			}
			if err != nil {
				return err
			}
			l.Promise(Promise{What: "have", N: n})
		}
		l.Kill()  // every call fails from here on, as for a process that is gone
		c.Close() // so this leaves no trace, and frees what is in memory
		return nil
	}}
}

// TestPage: the driver that docs/testing.md shows is this one, no layer finds
// anything, and where nothing is synced L1 does.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/testing.md")
	source, errSource := os.ReadFile("counter_test.go")
	if err := errors.Join(err, errSource); err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```go\nfunc Counter() *Driver {")
	shown, _, _ = strings.Cut(shown, "```")
	if shown == "" || !strings.Contains(string(source), "func Counter() *Driver {"+shown) {
		t.Error("the driver in docs/testing.md is not the one of this file")
	}
	c := Config{Seed: *seed, Budget: 300 * time.Millisecond, StatesMax: 3000}
	for _, r := range []Report{L1(Counter(), c), L2(Counter(), c)} {
		for _, f := range r.Failures {
			t.Error(f)
		}
		if r.Distinct == 0 {
			t.Errorf("%s judged nothing", r.Layer)
		}
	}
	sloppyCount = true
	defer func() { sloppyCount = false }()
	if r := L1(Counter(), c); len(r.Failures) == 0 {
		t.Error("a counter that syncs nothing is found to be safe")
	}
}
