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
		s.foundDamage(uint32(ref), err)
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
	s.mu.RLock()
	es := s.index.extentsOf(uint32(ref))
	if n := len(es); n > 0 && es[n-1].isGap() && seq >= uint64(es[n-1].seq) {
		defer s.mu.RUnlock()
		return es[n-1].off(), nil // how many are lost may not be known
	}
	if seq > run.LastSeq {
		defer s.mu.RUnlock()
		return run.LogBytes, nil
	}
	span := logSpan{num: uint32(ref), extents: []extent{es[bySeq(es, uint32(seq))]}, last: uint32(seq)}
	s.mu.RUnlock()
	if span.extents[0].isGap() {
		return span.extents[0].off(), nil
	}
	at := int64(-1)
	next := uint64(span.extents[0].seq)
	err := s.walkLog(span, func(lineOff int64, _ []byte) bool {
		at = lineOff
		next++
		return next <= seq
	})
	s.foundDamage(uint32(ref), err)
	return at, err
}

// logSpan is a stretch of a run's log: extents, and the last row to read.
type logSpan struct {
	num     uint32
	extents []extent
	last    uint32
	endless bool // nobody knows how many rows the gap at the end stands for
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
	es := s.index.extentsOf(num)
	from := byOffset(es, off)
	to := byOffset(es, off+n-1) + 1
	span.extents = append(span.extents, es[from:to]...)
	if to < len(es) {
		span.last = es[to].seq - 1
	} else if d := s.index.damaged[num]; d != nil && d.loss != nil {
		span.endless = d.loss.endless
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
		w.endless = span.endless && i+1 == len(span.extents)
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
	endless bool // of the extent that is walked
	// damage is what was stepped over and may have been of the run: if a row is
	// missing then, it was.
	damage error
}

// extent renders an extent's rows, up to last: those in the frame that it
// begins with, and in the run's frames that follow it in the segment. Between
// them lie frames of other runs, which are stepped over.
func (w *logWalk) extent(e extent, last uint32) error {
	pos, seq, off := e.pos(), e.seq, e.off()
	if e.isGap() {
		w.line = appendGap(w.line[:0], e.seq, last, w.endless)
		w.stopped = !w.fn(off, w.line)
		return nil
	}
	for seq <= last {
		if !e.holds(pos) {
			return w.missing(seq)
		}
		f, next, err := w.store.log.ReadBatch(pos, w.buf[:])
		if d := rotten(err); d != nil && next != pos {
			if d.Run == 0 || d.Run == uint64(w.span.num) {
				w.damage = err
			}
			pos = next
			continue
		}
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

// missing is the error of a row that is not where it should be.
func (w *logWalk) missing(seq uint32) error {
	if w.damage != nil {
		return w.damage
	}
	return badBatch("its row %d of run %d is not where the index says", seq, w.span.num)
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
	if rowSeq > seq {
		return 0, 0, w.missing(seq)
	}
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
