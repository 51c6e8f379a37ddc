package wal

import (
	"errors"
	"io"

	"durafs/internal/vfs"
)

const (
	// aheadBytes is how much is read at a time. A range that is no longer is
	// read as it is asked for.
	aheadBytes = 2 << 20
	// aheadBlocks are under way at a time: one read that waits for its disk
	// leaves it idle between two, and has two thirds of what it can give.
	aheadBlocks = 2
)

// ahead reads a file from its beginning to its end some blocks ahead of whoever
// asks: while frames of one block are checked and applied, the disk reads the
// next ones. A tail is read past the page cache, so no one else does that for us.
//
// It is for one reader at a time. Each block is read in a goroutine of its own;
// a read that does not go on where the one before ended waits for them.
type ahead struct {
	read func(p []byte, off int64) (int, error)
	end  int64
	// cur holds the offset that was asked for last, nil before the first; next
	// follow it, in order. spare are blocks that are not in use.
	cur   *aheadBlock
	next  []*aheadBlock
	spare [][]byte
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
		old.empty()
		a.spare = old.spare
		return a
	}
	all := vfs.AlignedBuffer((1 + aheadBlocks) * aheadBytes)
	for len(all) > 0 {
		a.spare, all = append(a.spare, all[:aheadBytes:aheadBytes]), all[aheadBytes:]
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

// lend gives the bytes from off on that were read with it. They stay until
// lend or ReadAt is called again.
func (a *ahead) lend(off int64) []byte {
	b := a.block(off)
	if b == nil || off-b.off >= int64(b.n) {
		return nil
	}
	return b.buf[off-b.off : b.n]
}

// block is the block with offset off, which was read; nil behind the end. Those
// behind it are on their way then.
func (a *ahead) block(off int64) *aheadBlock {
	if off >= a.end {
		return nil
	}
	if a.cur.holds(off) {
		return a.cur
	}
	if len(a.next) > 0 && a.next[0].holds(off) {
		a.spare = append(a.spare, a.cur.buf)
		a.cur, a.next = a.next[0], a.next[1:]
	} else {
		a.empty()
		a.cur = a.begin(off - off%aheadBytes)
	}
	<-a.cur.done
	for a.cur.err == nil && len(a.next) < aheadBlocks {
		behind := a.cur.off + int64(len(a.next)+1)*aheadBytes
		if behind >= a.end {
			break
		}
		a.next = append(a.next, a.begin(behind))
	}
	return a.cur
}

func (b *aheadBlock) holds(off int64) bool {
	return b != nil && b.off <= off && off < b.off+aheadBytes
}

// empty lets go of all blocks.
func (a *ahead) empty() {
	a.wait()
	for _, b := range a.next {
		a.spare = append(a.spare, b.buf)
	}
	if a.cur != nil {
		a.spare = append(a.spare, a.cur.buf)
	}
	a.cur, a.next = nil, nil
}

// begin begins to read the block at off.
func (a *ahead) begin(off int64) *aheadBlock {
	n := len(a.spare) - 1
	b := &aheadBlock{off: off, buf: a.spare[n], done: make(chan struct{})}
	a.spare = a.spare[:n]
	go func() {
		defer close(b.done)
		b.n, b.err = a.read(b.buf[:min(aheadBytes, a.end-off)], off)
		if errors.Is(b.err, io.EOF) {
			b.err = nil
		}
	}()
	return b
}

// wait waits for reads that are under way: after it the file may be closed.
func (a *ahead) wait() {
	for _, b := range a.next {
		<-b.done
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
