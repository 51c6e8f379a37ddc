package segment

import (
	"encoding/binary"
	"errors"
	"io"

	"durafs/internal/mutant"
)

const (
	// windowBytes is how much a Walker reads at once; the largest frame fits.
	windowBytes = 2 << 20
	// briefBytes is how much one reads that does not go far.
	briefBytes = 4 << 10
)

// Frame is a frame as a walk finds it. Payload is valid until the next step.
type Frame struct {
	FrameHeader
	Offset  int64
	Payload []byte
}

// Walker reads the frames of one file in order. It is not for concurrent use.
type Walker struct {
	// LSN and Prev are what the next frame has to follow: the LSN of the last
	// frame and its header checksum. Set LSN before the first step; 0 and
	// FreeStart take any first LSN.
	LSN  uint64
	Prev uint32
	// Durable is the highest durable of the frames so far.
	Durable uint64

	read func(p []byte, off int64) (int, error)
	key  Key
	pos  int64
	end  int64

	buf   []byte // the bytes of the file from base on
	base  int64
	space []byte
	most  int64 // that is read at once
	lend  func(off int64) []byte
	free  bool
}

// NewWalker walks the frames between the offsets pos and end of the file that
// read reads (a ReadAt). last is the LSN that the first frame has to follow.
func NewWalker(read func(p []byte, off int64) (int, error), key Key, pos, end int64, last uint64) *Walker {
	return &Walker{LSN: last, read: read, key: key, pos: pos, end: end, most: windowBytes}
}

// FreeStart lets the first frame have any LSN.
func (w *Walker) FreeStart() { w.free = true }

// Close gives the walker's memory back, for the next one. No payload may be used
// any more. A walker that is not closed is left to the garbage collector.
func (w *Walker) Close() {
	if w.space != nil {
		windows.put(w.space)
	}
	w.space, w.buf = nil, nil
}

// Brief lets the walk read no more at once than a frame's header needs or,
// where a payload is asked for, the frame: it will not go far.
func (w *Walker) Brief() { w.most = briefBytes }

// Borrow lets the walk take frames from memory that somebody else has read, so
// that they need not be copied: lend gives the bytes of the file from off on,
// as far as they lie together, and they stay until it or the walker's read is
// called again. Nil or too few of them: they are read.
func (w *Walker) Borrow(lend func(off int64) []byte) { w.lend = lend }

// Offset is where the next frame is looked for: behind the last valid one.
func (w *Walker) Offset() int64 { return w.pos }

// Next steps to the next frame. At the end of the range it returns io.EOF. A
// frame that does not check, or does not follow the one before, is an
// *InvalidError; one from a later version is ErrUnknownFlag; other errors are
// those of reading. After an error the walk stays where it is.
func (w *Walker) Next() (Frame, error) {
	if w.pos >= w.end {
		return Frame{}, io.EOF
	}
	h, err := w.headerAt(w.pos)
	if err != nil {
		return Frame{}, err
	}
	if err := w.follows(&h); err != nil {
		return Frame{}, err
	}
	b, err := w.window(w.pos, h.Bytes())
	if err != nil {
		return Frame{}, err
	}
	payload, err := h.CheckPayload(b, w.pos)
	if err != nil {
		return Frame{}, err
	}
	f := Frame{FrameHeader: h, Offset: w.pos, Payload: payload}
	w.passed(&h)
	return f, nil
}

// Pass steps over the next frame without its payload, whatever that holds: a
// header that checks and follows the frame before can be trusted for walking
// on, and names whom the payload belonged to. Errors are those of Next.
func (w *Walker) Pass() (FrameHeader, error) {
	if w.pos >= w.end {
		return FrameHeader{}, io.EOF
	}
	h, err := w.headerAt(w.pos)
	if err == nil {
		err = w.follows(&h)
	}
	if err != nil {
		return FrameHeader{}, err
	}
	w.passed(&h)
	return h, nil
}

// passed moves the walk behind a frame.
func (w *Walker) passed(h *FrameHeader) {
	w.pos += h.Bytes()
	w.LSN, w.Prev, w.free = h.LSN, h.CRC, false
	w.Durable = max(w.Durable, h.Durable)
}

// headerAt reads the header of a frame that lies within the range.
func (w *Walker) headerAt(off int64) (FrameHeader, error) {
	b, err := w.window(off, FrameHeaderBytes)
	if err != nil {
		return FrameHeader{}, err
	}
	h, err := DecodeFrameHeader(b, w.key, off)
	if err == nil && off+h.Bytes() > w.end {
		return FrameHeader{}, &InvalidError{off, "frame reaches behind the end"}
	}
	return h, err
}

// follows checks a frame against the one before it.
func (w *Walker) follows(h *FrameHeader) error {
	next := w.LSN
	if h.Count > 0 {
		next++
	}
	switch {
	case (h.Kind == Batch || h.Kind == Manifest) != (h.Count > 0):
		return &InvalidError{w.pos, "count does not go with the kind"}
	case h.Prev != w.Prev:
		return &InvalidError{w.pos, "does not follow the frame before it"}
	case h.LSN != next && !w.free:
		return &InvalidError{w.pos, "LSN does not follow"}
	case h.Durable > h.LSN || h.Count > 0 && h.Durable >= h.LSN:
		return &InvalidError{w.pos, "vouches for itself"}
	case h.Durable < w.Durable:
		return &InvalidError{w.pos, "vouches for less than a frame before it"}
	}
	return nil
}

// Claims looks at everything from the walk's offset to the end of the range
// for headers that check, on any boundary, and returns the largest durable
// among them. found is false when there is none. A header that checks and is
// from a later version is ErrUnknownFlag: what it claims nobody here can tell.
// The walk is over then.
func (w *Walker) Claims() (durable uint64, found bool, err error) {
	off := w.pos
	for off+FrameHeaderBytes <= w.end {
		n := min(windowBytes, w.end-off)
		b, err := w.window(off, n)
		if err != nil {
			return durable, found, notShort(err)
		}
		next := off + n - FrameHeaderBytes + Align
		for i := int64(0); i+FrameHeaderBytes <= n; i += Align {
			if i += zerosAt(b[i:n]); i+FrameHeaderBytes > n {
				break
			}
			if !plausible(b[i:]) {
				continue
			}
			h, err := DecodeFrameHeader(b[i:], w.key, off+i)
			if errors.Is(err, ErrUnknownFlag) {
				return durable, found, err
			}
			if err != nil {
				continue
			}
			if !found || !mutant.On(mutant.FirstLaterFrame) {
				durable = max(durable, h.Durable)
			}
			found = true
			// A header that checks can be trusted for walking on.
			i += h.Bytes() - Align
			next = max(next, off+i+Align)
		}
		off = next
	}
	return durable, found, nil
}

// notShort drops the error of a file that ends before the range does.
func notShort(err error) error {
	var short *InvalidError
	if errors.As(err, &short) {
		return nil
	}
	return err
}

// Resync moves the walk to the next frame that checks as a whole, whatever it
// follows, and lets the walk go on there. It tells whether there is one; LSN is
// then that of the last batch before it.
func (w *Walker) Resync() (found bool, err error) {
	for off := w.pos + Align; off+FrameHeaderBytes <= w.end; off += Align {
		b, err := w.window(off, FrameHeaderBytes)
		if err != nil {
			return false, notShort(err)
		}
		if !plausible(b) {
			continue
		}
		h, err := w.headerAt(off)
		if err != nil {
			continue
		}
		if b, err = w.window(off, h.Bytes()); err != nil {
			return false, notShort(err)
		}
		if _, err := h.CheckPayload(b, off); err != nil {
			continue
		}
		w.pos, w.Prev, w.LSN = off, h.Prev, h.LSN
		if h.Count > 0 {
			w.LSN--
		}
		w.Durable = min(w.Durable, h.Durable)
		return true, nil
	}
	return false, nil
}

// zerosAt is how far zeros go, in large steps, in which no header can begin: one
// that does has a byte that is not zero in its first 16. Most of what a walk
// looks at for headers was never written.
func zerosAt(b []byte) (n int64) {
	for len(b) >= len(zeros) && string(b[:len(zeros)]) == zeros {
		b = b[zerosStep:]
		n += zerosStep
	}
	return n
}

const zerosStep = 512

var zeros = string(make([]byte, zerosStep+2*Align))

// plausible tells cheaply that a header may be worth a checksum.
func plausible(b []byte) bool {
	v := binary.LittleEndian.Uint64(b[8:])
	return uint32(v) <= PayloadBytesMax && byte(v>>32) == FrameHeaderBytes
}

// window returns the n bytes at off, at most windowBytes, reading on where
// they are not in memory.
func (w *Walker) window(off, n int64) ([]byte, error) {
	if off >= w.base && off+n <= w.base+int64(len(w.buf)) {
		return w.buf[off-w.base:][:n], nil
	}
	if off+n > w.end {
		return nil, &InvalidError{off, ReasonNoRoom}
	}
	if w.lend != nil {
		if b := w.lend(off); int64(len(b)) >= n {
			w.base, w.buf = off, b[:min(int64(len(b)), w.end-off)]
			return b[:n], nil
		}
	}
	return w.load(off, n)
}

// load reads the n bytes at off, and what comes behind them, into space.
func (w *Walker) load(off, n int64) ([]byte, error) {
	most := max(n, w.most)
	if w.lend != nil {
		most = n // what comes behind is borrowed
	}
	want := int(min(most, w.end-off))
	space := w.space
	if len(space) < want {
		space = windows.get(want)
	}
	keep := 0
	if off >= w.base && off < w.base+int64(len(w.buf)) {
		keep = copy(space, w.buf[off-w.base:])
	}
	if w.space != nil && len(w.space) < len(space) {
		windows.put(w.space)
	}
	w.space, w.base = space, off
	got, err := w.read(w.space[keep:want], off+int64(keep))
	w.buf = w.space[:keep+got]
	if err != nil && !errors.Is(err, io.EOF) {
		w.buf = w.buf[:0]
		return nil, err
	}
	if int64(len(w.buf)) < n {
		return nil, &InvalidError{off, "the file ends here"}
	}
	return w.buf[:n], nil
}
