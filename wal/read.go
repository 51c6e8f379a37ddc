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
// alias buf. A frame that does not check is a *DamageError.
//
// Where no frame is durable yet it returns ErrEnd, and after Close ErrClosed. A position behind the last
// frame of a segment that will not grow stands for the first of the next one;
// Frame.Pos tells where the frame was.
func (l *Log) ReadBatch(pos Position, buf []byte) (b Frame, next Position, err error) {
	for {
		seg, after := l.files.find(pos.Segment)
		if seg == nil {
			return Frame{}, pos, &DamageError{File: segmentName(pos.Segment), Offset: int64(pos.Offset), Reason: "no such segment"}
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
		if err != nil {
			return Frame{}, pos, err
		}
		next := Position{pos.Segment, pos.Offset + uint32(h.Bytes())}
		if h.Kind != segment.Batch {
			pos = next
			continue
		}
		return Frame{LSN: h.LSN, Run: h.Run, Count: h.Count, Payload: payload, Pos: pos}, next, nil
	}
}

// readFrame reads and checks one frame below the segment's end.
func (l *Log) readFrame(seg *segFile, off int64, buf []byte) (segment.FrameHeader, []byte, error) {
	f, err := l.files.acquire(seg)
	if errors.Is(err, ErrClosed) {
		return segment.FrameHeader{}, nil, err
	}
	if err != nil {
		return segment.FrameHeader{}, nil, damageAt(seg.name, off, 0, 0, err)
	}
	defer l.files.release(seg)
	if cap(buf) < readBytesFirst {
		buf = make([]byte, readBytesFirst)
	}
	room := seg.end.Load() - off
	b := buf[:min(int64(cap(buf)), room)]
	if err := readFull(f, b, off); err != nil {
		return segment.FrameHeader{}, nil, damageAt(seg.name, off, 0, 0, err)
	}
	h, err := segment.DecodeFrameHeader(b, seg.key, off)
	if err == nil && h.Bytes() > room {
		err = &segment.InvalidError{Offset: off, Reason: "frame reaches behind the end"}
	}
	if err != nil {
		return h, nil, damageAt(seg.name, off, 0, 0, err)
	}
	if n := int(h.Bytes()); n > len(b) {
		whole := make([]byte, n)
		got := copy(whole, b)
		if err := readFull(f, whole[got:], off+int64(got)); err != nil {
			return h, nil, damageAt(seg.name, off, h.LSN, h.LSN, err)
		}
		b = whole
	}
	payload, err := h.CheckPayload(b, off)
	if err != nil {
		return h, nil, damageAt(seg.name, off, h.LSN, h.LSN, err)
	}
	return h, payload, nil
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
