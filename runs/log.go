package runs

import (
	"fmt"
	"io"
	"slices"

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
	if _, ok := s.Info(ref); !ok {
		return 0, unknownRef(ref)
	}
	if seq <= 1 {
		return 0, nil
	}
	p, err := s.places(uint32(ref))
	if err != nil {
		return 0, err
	}
	if n := len(p.extents); n > 0 && p.extents[n-1].isGap() && seq >= uint64(p.extents[n-1].seq) {
		return p.extents[n-1].off(), nil // how many are lost may not be known
	}
	if seq > uint64(p.lastSeq) {
		return p.bytes, nil
	}
	span := logSpan{num: uint32(ref), extents: []extent{p.extents[bySeq(p.extents, uint32(seq))]}, last: uint32(seq)}
	if span.extents[0].isGap() {
		return span.extents[0].off(), nil
	}
	at := int64(-1)
	next := uint64(span.extents[0].seq)
	err = s.walkLog(span, func(lineOff int64, _ []byte) bool {
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
	p, err := s.places(num)
	if err != nil {
		return logSpan{}, err
	}
	span := logSpan{num: num, last: p.lastSeq}
	if n == 0 || off >= p.bytes {
		return span, nil
	}
	es := p.extents
	from := byOffset(es, off)
	to := byOffset(es, off+n-1) + 1
	span.extents = append(span.extents, es[from:to]...)
	if to < len(es) {
		span.last = es[to].seq - 1
	} else {
		span.endless = p.endless
	}
	return span, nil
}

// logPlaces is where all of a run's log lies, at one moment.
type logPlaces struct {
	extents []extent
	lastSeq uint32
	bytes   int64
	endless bool // see logSpan
}

func (s *Store) places(num uint32) (logPlaces, error) {
	s.mu.RLock()
	c, i := s.index.at(num)
	known, tail := c.phase[i] != PhaseNone, c.tail[i]
	p := logPlaces{lastSeq: c.lastSeq[i], bytes: c.logBytes[i]}
	memory, whole := s.index.extentsNow(num)
	if whole {
		memory = slices.Clone(memory)
	}
	if d := s.index.damaged[num]; d != nil && d.loss != nil {
		p.endless = d.loss.endless
	}
	s.mu.RUnlock()
	if !known {
		return p, unknownRef(Ref(num))
	}
	if whole || tail == 0 {
		p.extents = memory
		return p, nil
	}
	sealed, err := s.sealed(num, tail)
	p.extents = sealed.joined(memory)
	return p, err
}

// joined are the extents in sealed segments, and those behind them.
func (r *sealedRun) joined(memory []extent) []extent {
	switch {
	case len(r.extents) == 0:
		return memory
	case len(memory) == 0:
		return r.extents
	}
	return append(slices.Clip(r.extents), memory...)
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
