package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// directAlign satisfies the alignment of O_DIRECT on every disk in use.
	directAlign = 4096
	// directBytesMax is read at a time where the caller's range is not aligned.
	directBytesMax = 1 << 20
)

func (f *osFile) ReadUncachedAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &fs.PathError{Op: "readuncached", Path: f.Name(), Err: unix.EINVAL}
	}
	d, err := f.openDirect()
	if errors.Is(err, fs.ErrClosed) {
		return 0, err
	}
	if err != nil {
		return f.readDroppedAt(p, off)
	}
	n, err := readDirectAt(d, p, off)
	if errors.Is(err, unix.EINVAL) { // opened, but not readable that way
		return f.readDroppedAt(p, off)
	}
	return n, err
}

// readDirectAt reads through an O_DIRECT descriptor, which takes aligned
// ranges only, in pieces through an aligned buffer.
func readDirectAt(d *os.File, p []byte, off int64) (int, error) {
	var buf []byte
	got := 0
	if whole := len(p) &^ (directAlign - 1); off%directAlign == 0 && isAligned(p) {
		n, err := preadFull(d, p[:whole], off)
		if err != nil {
			return n, err
		}
		if n < whole {
			return n, io.EOF
		}
		got = n
	}
	for got < len(p) {
		at := off + int64(got)
		start := at &^ (directAlign - 1)
		skip := int(at - start)
		if buf == nil {
			buf = AlignedBuffer(min(alignUp(skip+len(p)-got), directBytesMax))
		}
		want := buf[:min(alignUp(skip+len(p)-got), len(buf))]
		n, err := preadFull(d, want, start)
		if err != nil {
			return got, err
		}
		if n <= skip {
			return got, io.EOF
		}
		got += copy(p[got:], want[skip:n])
		if n < len(want) && got < len(p) {
			return got, io.EOF
		}
	}
	return got, nil
}

// preadFull fills p, or less of it at the end of the file. A read that ends off
// the alignment has met the end, and is not continued from there: that would be
// an unaligned read.
func preadFull(d *os.File, p []byte, off int64) (int, error) {
	got := 0
	for got < len(p) {
		var n int
		err := call(d, "pread", func(fd int) (err error) {
			n, err = unix.Pread(fd, p[got:], off+int64(got))
			return err
		})
		if err != nil {
			return got, err
		}
		got += n
		if n == 0 || n%directAlign != 0 {
			break
		}
	}
	return got, nil
}

// readDroppedAt drops the pages of the range from the cache and reads it
// again. Dirty pages cannot be dropped, so they are written first; and only
// whole pages are, so the range is widened to them.
func (f *osFile) readDroppedAt(p []byte, off int64) (int, error) {
	start := off &^ (directAlign - 1)
	n := int64(alignUp(int(off-start) + len(p)))
	err := call(f.File, "sync_file_range", func(fd int) error {
		const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
		return unix.SyncFileRange(fd, start, n, all)
	})
	if err != nil {
		return 0, err
	}
	err = call(f.File, "fadvise", func(fd int) error {
		return unix.Fadvise(fd, start, n, unix.FADV_DONTNEED)
	})
	if err != nil {
		return 0, err
	}
	return f.ReadAt(p, off)
}

// openDirect opens the file once more. By way of the descriptor and not of the
// name, which may stand for another file by now.
func (f *osFile) openDirect() (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.direct != nil {
		return f.direct, nil
	}
	err := call(f.File, "open", func(fd int) (err error) {
		f.direct, err = os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDONLY|unix.O_DIRECT, 0)
		return err
	})
	return f.direct, err
}

func alignUp(n int) int { return (n + directAlign - 1) &^ (directAlign - 1) }

// hugeBytes is the size of a huge page, on what we run on.
const hugeBytes = 2 << 20

// AlignedBuffer makes a buffer of n bytes at an address that ReadUncachedAt can
// have the disk write to, without a copy. One of 2 MiB or more lies in huge
// pages where the kernel has them: a disk is given a list of where its bytes
// go, and one place for each 4 KiB can cost it more than the bytes (in a
// virtual machine, reads of 2 MiB: 1.9 GB/s, in huge pages 7).
func AlignedBuffer(n int) []byte {
	align := directAlign
	if n >= hugeBytes {
		align = hugeBytes
	}
	b := make([]byte, n+align)
	skip := align - int(addressIn(b)&uintptr(align-1))
	b = b[skip%align:][:n:n]
	makeHuge(b)
	return b
}

// makeHuge has the kernel move what it can of b to huge pages. It takes no
// stretch of which no page was ever touched; and it may refuse, which costs
// nothing but time.
func makeHuge(b []byte) {
	whole := b[:len(b)&^(hugeBytes-1)]
	for i := 0; i < len(whole); i += hugeBytes {
		whole[i] = 0
	}
	if len(whole) > 0 {
		_ = unix.Madvise(whole, unix.MADV_COLLAPSE)
	}
}

func isAligned(p []byte) bool { return addressIn(p)&(directAlign-1) == 0 }

func addressIn(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }
