package runs

import (
	"fmt"
	"io"

	"durafs/wal"
)

// ReadLogAt reads the rendered log, as the mount shows it, like io.ReaderAt:
// every row one line. Bytes up to Info(ref).LogBytes are there.
func (s *Store) ReadLogAt(ref Ref, p []byte, off int64) (int, error) {
	span, err := s.logSpan(uint32(ref), off, int64(len(p)))
	if err != nil {
		return 0, err
	}
	n := 0
	err = s.walkLog(span, func(lineOff int64, line []byte) bool {
		if from := off + int64(n) - lineOff; from < int64(len(line)) {
			n += copy(p[n:], line[max(0, from):])
		}
		return n < len(p)
	})
	if err != nil {
		return n, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// LogOffset tells at which rendered offset the row seq begins, and LogBytes
// for any number behind the last row.
func (s *Store) LogOffset(ref Ref, seq uint64) (int64, error) {
	run, ok := s.Info(ref)
	if !ok {
		return 0, unknownRef(ref)
	}
	if seq <= 1 {
		return 0, nil
	}
	if seq > run.LastSeq {
		return run.LogBytes, nil
	}
	s.mu.RLock()
	c, i := s.index.at(uint32(ref))
	es := s.index.extents.of(c.extents[i])
	span := logSpan{num: uint32(ref), extents: []extent{es[bySeq(es, uint32(seq))]}, last: uint32(seq)}
	s.mu.RUnlock()
	at := int64(-1)
	next := uint64(span.extents[0].seq)
	err := s.walkLog(span, func(lineOff int64, _ []byte) bool {
		at = lineOff
		next++
		return next <= seq
	})
	return at, err
}

// logSpan is a stretch of a run's log: extents, and the last row to read.
type logSpan struct {
	num     uint32
	extents []extent
	last    uint32
}

// logSpan finds the extents that hold n bytes from off on.
func (s *Store) logSpan(num uint32, off, n int64) (logSpan, error) {
	if off < 0 {
		return logSpan{}, fmt.Errorf("runs: negative offset %d", off)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, i := s.index.at(num)
	if c.phase[i] == PhaseNone {
		return logSpan{}, unknownRef(Ref(num))
	}
	span := logSpan{num: num, last: c.lastSeq[i]}
	if n == 0 || off >= c.logBytes[i] {
		return span, nil
	}
	es := s.index.extents.of(c.extents[i])
	from := byOffset(es, off)
	to := byOffset(es, off+n-1) + 1
	span.extents = append(span.extents, es[from:to]...)
	if to < len(es) {
		span.last = es[to].seq - 1
	}
	return span, nil
}

// walkLog renders the rows of a span, in order, until fn returns false.
func (s *Store) walkLog(span logSpan, fn func(off int64, line []byte) bool) error {
	w := &logWalk{store: s, span: span, fn: fn}
	for i, e := range span.extents {
		last := span.last
		if i+1 < len(span.extents) {
			last = span.extents[i+1].seq - 1
		}
		if err := w.extent(e, last); err != nil || w.stopped {
			return err
		}
	}
	return nil
}

type logWalk struct {
	store   *Store
	span    logSpan
	fn      func(off int64, line []byte) bool
	buf     [8 << 10]byte // holds most frames; a read takes as much at once
	line    []byte
	stopped bool
}

// extent renders an extent's rows, up to last: those in the frame that it
// begins with, and in the run's frames that follow it in the segment. Between
// them lie frames of other runs, which are stepped over.
func (w *logWalk) extent(e extent, last uint32) error {
	pos, seq, off := e.pos(), e.seq, e.off()
	for seq <= last {
		if pos.Segment != e.segment || pos.Offset-e.offset > extentSpanBytesMax {
			return badBatch("its row %d of run %d is not where the index says", seq, w.span.num)
		}
		f, next, err := w.store.log.ReadBatch(pos, w.buf[:])
		if err != nil {
			return err
		}
		if f.Run == uint64(w.span.num) || f.Run == 0 {
			if seq, off, err = w.frame(f, seq, last, off); err != nil || w.stopped {
				return err
			}
		}
		pos = next
	}
	return nil
}

// frame renders the rows of the run that are in f, from seq on.
func (w *logWalk) frame(f wal.Frame, seq, last uint32, off int64) (uint32, int64, error) {
	b, err := decodeBatch(f.Payload)
	if err != nil {
		return 0, 0, err
	}
	at := b.stamp.find(w.span.num)
	if at < 0 {
		return seq, off, nil
	}
	rowSeq := uint32(b.stamp.runs[at].seq)
	for _, e := range b.entries {
		if e.kind != kindRow || e.run != w.span.num {
			continue
		}
		if rowSeq == seq && seq <= last && !w.stopped {
			row, err := parseRow(e)
			if err != nil {
				return 0, 0, err
			}
			w.line = appendLine(w.line[:0], row.text, row.flags, uint64(seq), b.stamp.at)
			w.stopped = !w.fn(off, w.line)
			off += int64(len(w.line))
			seq++
		}
		rowSeq++
	}
	return seq, off, nil
}
