package wal

import (
	"errors"
	"io"

	"durafs/segment"
)

// readBytesFirst is how much a read takes at once when it does not know yet
// how long the frame is.
const readBytesFirst = 4 << 10

// ReadBatch reads and checks the frame at pos, into buf where that is large
// enough, and tells the position behind it (next is a place to try, not a
// promise that a frame is there). Payload is Body and Stamp together, and may
// alias buf.
//
// A frame that does not check is a *DamageError; next is then where the next
// one that does may be, or pos itself where the segment is gone. If it is only
// the payload, b is what its header says, and the damage names the run.
//
// Where no frame is durable yet it returns ErrEnd, and after Close ErrClosed. A position behind the last
// frame of a segment that will not grow stands for the first of the next one;
// Frame.Pos tells where the frame was.
func (l *Log) ReadBatch(pos Position, buf []byte) (b Frame, next Position, err error) {
	for {
		seg, after := l.files.find(pos.Segment)
		if seg == nil {
			return Frame{}, pos, noSuchSegment(pos.Segment, int64(pos.Offset))
		}
		closed := seg.closed.Load() // before end: then end is final
		if int64(pos.Offset) >= seg.end.Load() {
			if !closed || after == nil {
				return Frame{}, pos, ErrEnd
			}
			pos = Position{after.id, segment.HeaderBytes}
			continue
		}
		h, payload, err := l.readFrame(seg, int64(pos.Offset), buf)
		next := Position{pos.Segment, pos.Offset + uint32(h.Bytes())}
		if err != nil && h.Kind == 0 {
			next, err = l.resync(seg, pos, err)
			return Frame{}, next, err
		}
		if h.Kind != segment.Batch { // damaged or not, it holds nothing
			pos = next
			continue
		}
		return Frame{LSN: h.LSN, Run: h.Run, Count: h.Count, Payload: payload, Pos: pos}, next, err
	}
}

// resync finds the next frame behind one whose header does not check; where
// there is none, the segment's end.
func (l *Log) resync(seg *segFile, pos Position, cause error) (Position, error) {
	var d *DamageError
	if !errors.As(cause, &d) {
		return pos, cause
	}
	f, err := l.files.acquire(seg)
	if err != nil {
		return pos, cause
	}
	defer l.files.release(seg)
	end := seg.end.Load()
	read := salvage{read: f.ReadAt}
	w := segment.NewWalker(read.ReadAt, seg.key, int64(pos.Offset), end, 0)
	defer w.Close()
	if found, err := w.Resync(); found && err == nil {
		return Position{pos.Segment, uint32(w.Offset())}, d
	}
	return Position{pos.Segment, uint32(end)}, d
}

// readFrame reads and checks one frame below the segment's end. With an error
// the header is zero unless it checks, and then the damage is of its run.
func (l *Log) readFrame(seg *segFile, off int64, buf []byte) (segment.FrameHeader, []byte, error) {
	f, err := l.files.acquire(seg)
	var gone *DamageError
	if errors.Is(err, ErrClosed) || errors.As(err, &gone) {
		return segment.FrameHeader{}, nil, err
	}
	if err != nil {
		return segment.FrameHeader{}, nil, damageAt(seg.name, off, 0, 0, err)
	}
	defer l.files.release(seg)
	if cap(buf) < readBytesFirst {
		buf = make([]byte, readBytesFirst)
	}
	read := salvage{read: f.ReadAt}
	room := seg.end.Load() - off
	b := buf[:min(int64(cap(buf)), room)]
	short := fill(&read, b, off)
	h, err := segment.DecodeFrameHeader(b, seg.key, off)
	if err == nil && h.Bytes() > room {
		err = &segment.InvalidError{Offset: off, Reason: "frame reaches behind the end"}
	}
	if err != nil {
		return segment.FrameHeader{}, nil, damageAt(seg.name, off, 0, 0, read.because(short, err))
	}
	if n := int(h.Bytes()); n > len(b) {
		whole := make([]byte, n)
		got := copy(whole, b)
		short = fill(&read, whole[got:], off+int64(got))
		b = whole
	}
	payload, invalid := h.CheckPayload(b, off)
	if invalid != nil {
		err = damageAt(seg.name, off, h.LSN, h.LSN, read.because(short, invalid))
		var d *DamageError
		if errors.As(err, &d) && h.Kind == segment.Batch {
			d.Run, d.Count = h.Run, h.Count
		}
		return h, nil, err
	}
	return h, payload, nil
}

// fill is readFull, with zeros for what is not there.
func fill(r *salvage, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	clear(p[n:])
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return &segment.InvalidError{Offset: off + int64(n), Reason: "the file ends here"}
	}
	return err
}

// readFull reads all of p; a file that is too short is invalid there.
func readFull(f io.ReaderAt, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return &segment.InvalidError{Offset: off + int64(n), Reason: "the file ends here"}
	}
	return err
}
