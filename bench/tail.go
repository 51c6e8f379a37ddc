package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"durafs/internal/vfs"
	"durafs/segment"
	"durafs/store"
)

// unsealed is a file system on which no segment of a log can be sealed, until
// the power is cut: then nothing at all can be changed. What a store leaves
// there is what a crash leaves whose sealing had not come far.
type unsealed struct {
	vfs.FS
	off atomic.Bool
}

func newUnsealed(under vfs.FS) *unsealed {
	u := new(unsealed)
	u.FS = vfs.Hooked(under, u.hook)
	return u
}

const changes = vfs.OpCreate | vfs.OpOpenWrite | vfs.OpMkdir | vfs.OpRename | vfs.OpRemove | vfs.OpWrite |
	vfs.OpTruncate | vfs.OpDatasync | vfs.OpDirSync

func (u *unsealed) hook(c vfs.Call, do func(int64) error) error {
	switch {
	case u.off.Load() && c.Op&changes != 0, c.Op == vfs.OpOpenWrite && filepath.Ext(c.Name) == ".seg":
		return syscall.EIO
	}
	return do(vfs.Whole)
}

// makeTail makes of dir, which has nothing or a store without tail, a store
// that a crash has left with at least n bytes of frames in its log's tail: runs
// of 100 rows of 1 KiB, so many rows a batch. Nothing of it is sealed. It tells
// the id of the last run.
func makeTail(ctx context.Context, dir string, n int64, groupRows int) (last string, err error) {
	fs := newUnsealed(vfs.OS)
	s, err := store.Open(ctx, dir, store.Options{FS: fs})
	if err != nil {
		return "", err
	}
	const rowsPerRun, rowBytes = 100, 1 << 10
	o := GenerateOptions{
		Runs: max(1, int(n/(rowsPerRun*rowBytes))+1), RowBytes: rowBytes, GroupRows: groupRows, Interleave: 64,
		Seed: tailSeed,
	}
	o.Rows = o.Runs * rowsPerRun
	if o, err = o.withDefaults(); err == nil {
		_, err = fill(ctx, s.Runs(), o)
	}
	fs.off.Store(true)
	s.Close(ctx) // fails, as it should: the power is off
	return generatedID(newGeneratedRand(tailSeed, o.Runs-1)), err
}

// tailSeed makes the runs of a tail others than those of a store before it.
const tailSeed = 1

// cloneStore makes another store of the files of one that nobody has open. Its
// segments and packs are the same files: they never change, except when they
// are sealed, and the unsealed file system lets nothing be sealed.
func cloneStore(from, to string) error {
	return filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		switch name := e.Name(); {
		case e.IsDir():
			return os.MkdirAll(dest, 0o700)
		case !e.Type().IsRegular() || strings.HasPrefix(name, "spare-"):
			return nil
		case filepath.Ext(name) == ".seg", filepath.Ext(name) == ".pack":
			return os.Link(path, dest)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(dest, b, 0o600)
	})
}

// segmentsOf are the segments of the store in dir, without what was written
// ahead.
func segmentsOf(dir string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "wal", "*.seg"))
	var names []string
	for _, name := range all {
		if !strings.HasPrefix(filepath.Base(name), "spare-") {
			names = append(names, name)
		}
	}
	if err == nil && len(names) == 0 {
		err = errors.New("there are no segments in " + dir)
	}
	return names, err
}

// scanFloor reads the first n bytes of the files together, and their CRC-32C,
// and tells how long that takes.
func scanFloor(names []string, n int64) (time.Duration, error) {
	buf := make([]byte, 1<<20)
	sum := uint32(0)
	begin := time.Now()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		for n > 0 {
			got, err := f.Read(buf[:min(n, int64(len(buf)))])
			sum = segment.ExtendChecksum(sum, buf[:got])
			n -= int64(got)
			if err == io.EOF {
				break
			}
			if err != nil {
				f.Close()
				return 0, err
			}
		}
		f.Close()
	}
	took := time.Since(begin)
	if n > 0 {
		return 0, fmt.Errorf("the files are %d bytes too short", n)
	}
	return took, nil
}

// prepareCache makes the kernel have files in its cache, or not.
func prepareCache(names []string, cached bool) error {
	if err := dropFiles(names); err != nil || !cached {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, f)
		if f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// dropFiles makes the kernel forget what it has of files that are on disk.
func dropFiles(names []string) error {
	for _, name := range names {
		if err := dropFile(name); err != nil {
			return err
		}
	}
	return nil
}

// dropFile makes the kernel forget a file. What was not written yet would stay
// in the cache, so it is written first.
func dropFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
