package wal

import (
	"errors"
	"io"

	"durafs/internal/vfs"
)

// aheadBytes is how much is read at a time. A range that is no longer is read
// as it is asked for.
const aheadBytes = 2 << 20

// ahead reads a file from its beginning to its end one block ahead of whoever
// asks: while frames of one block are checked and applied, the disk reads the
// next. A tail is read past the page cache, so no one else does that for us.
//
// It is for one reader at a time. At most one read is under way, in a
// goroutine of its own; a read that does not go on where the one before ended
// waits for it, so the calls are the same ones in the same order every time.
type ahead struct {
	read func(p []byte, off int64) (int, error)
	end  int64
	// cur holds the offset that was asked for last, and next follows it or is
	// nil. spare is a block that is not in use.
	cur, next, spare *aheadBlock
}

type aheadBlock struct {
	off  int64
	buf  []byte
	n    int   // bytes that were read,
	err  error // and why not more; both valid once done is closed
	done chan struct{}
}

// newAhead reads up to the offset end of the file that read reads (a ReadAt).
// It takes over the blocks of one that is done; nil for none.
func newAhead(read func(p []byte, off int64) (int, error), end int64, old *ahead) *ahead {
	a := &ahead{read: read, end: end}
	if old != nil {
		old.wait()
		a.next, a.spare = emptied(old.cur), emptied(old.next)
	}
	return a
}

// ReadAt is like io.ReaderAt, up to end.
func (a *ahead) ReadAt(p []byte, off int64) (int, error) {
	got := 0
	for got < len(p) {
		at := off + int64(got)
		b := a.block(at)
		if b == nil {
			return got, io.EOF
		}
		n := 0
		if from := at - b.off; from < int64(b.n) {
			n = copy(p[got:], b.buf[from:b.n])
		}
		if got += n; n == 0 {
			if b.err == nil {
				return got, io.EOF
			}
			return got, b.err
		}
	}
	return got, nil
}

// block is the block with offset off, which was read; nil behind the end. The
// one behind it is on its way then.
func (a *ahead) block(off int64) *aheadBlock {
	if off >= a.end {
		return nil
	}
	if a.cur.holds(off) {
		return a.cur
	}
	a.wait()
	if a.cur != nil {
		a.spare = a.cur
	}
	a.cur, a.next = a.next, nil
	if !a.cur.holds(off) {
		if a.cur == nil {
			a.cur, a.spare = a.spare, nil
		}
		a.cur = a.begin(a.cur, off-off%aheadBytes)
		<-a.cur.done
	}
	if behind := a.cur.off + aheadBytes; behind < a.end && a.cur.err == nil {
		a.next = a.begin(a.spare, behind)
		a.spare = nil
	}
	return a.cur
}

func (b *aheadBlock) holds(off int64) bool {
	return b != nil && b.off <= off && off < b.off+aheadBytes
}

// emptied is a block that holds nothing, with b's memory.
func emptied(b *aheadBlock) *aheadBlock {
	if b == nil {
		return nil
	}
	done := make(chan struct{})
	close(done)
	return &aheadBlock{off: -aheadBytes, buf: b.buf, done: done}
}

// begin begins to read the block at off, into old where there is one.
func (a *ahead) begin(old *aheadBlock, off int64) *aheadBlock {
	if old == nil {
		old = &aheadBlock{buf: vfs.AlignedBuffer(aheadBytes)}
	}
	b := &aheadBlock{off: off, buf: old.buf, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.n, b.err = a.read(b.buf[:min(aheadBytes, a.end-off)], off)
		if errors.Is(b.err, io.EOF) {
			b.err = nil
		}
	}()
	return b
}

// wait waits for a read that is under way: after it the file may be closed.
func (a *ahead) wait() {
	if a.next != nil {
		<-a.next.done
	}
}

// aheadFile is a file that is read ahead.
type aheadFile struct {
	vfs.File
	ahead *ahead
}

func (f aheadFile) Close() error {
	f.ahead.wait()
	return f.File.Close()
}
