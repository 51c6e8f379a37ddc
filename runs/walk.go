package runs

import "durafs/wal"

// walkEntries calls fn for every entry of the run that stands in one batch with
// a row of its log, in order, until fn returns an error, which it returns.
func (s *Store) walkEntries(num uint32, fn func(b *batch, e entry) error) error {
	return s.walkPlaces(num, 0, func(_ entryPlace, b *batch, e entry) error { return fn(b, e) })
}

// entryPlace is where an entry stands.
type entryPlace struct {
	pos   wal.Position
	entry uint32
}

// walkPlaces is walkEntries that tells where each entry stands, up to the row
// upto (0: all there are). An entry belongs to the row that follows it in its
// batch.
func (s *Store) walkPlaces(num uint32, upto uint64, fn func(p entryPlace, b *batch, e entry) error) error {
	s.mu.RLock()
	c, i := s.index.at(num)
	all := c.logBytes[i]
	s.mu.RUnlock()
	span, err := s.logSpan(num, 0, all)
	if err != nil {
		return err
	}
	if upto == 0 || upto >= uint64(span.last) {
		upto = uint64(span.last)
	}
	w := &entryWalk{store: s, num: num, fn: fn}
	for i, e := range span.extents {
		last := uint32(upto)
		if i+1 < len(span.extents) {
			last = min(last, span.extents[i+1].seq-1)
		}
		if err := w.extent(e, last); err != nil {
			return err
		}
	}
	return nil
}

// entryWalk steps over the frames of a run's extents.
type entryWalk struct {
	store *Store
	num   uint32
	fn    func(p entryPlace, b *batch, e entry) error
	buf   [8 << 10]byte
}

// extent walks the frames that hold the rows of e, up to the row last.
func (w *entryWalk) extent(e extent, last uint32) error {
	pos, seq := e.pos(), e.seq
	for seq <= last {
		if pos.Segment != e.segment || pos.Offset-e.offset > extentSpanBytesMax {
			return badBatch("its row %d of run %d is not where the index says", seq, w.num)
		}
		f, next, err := w.store.log.ReadBatch(pos, w.buf[:])
		if d := rotten(err); d != nil && d.Run != 0 && d.Run != uint64(w.num) && next != pos {
			pos = next // of another run
			continue
		}
		if err != nil {
			return err
		}
		if f.Run == uint64(w.num) || f.Run == 0 {
			if seq, err = w.frame(f, pos, seq, last); err != nil {
				return err
			}
		}
		pos = next
	}
	return nil
}

// frame tells the entries of the run that belong to its rows from seq to last.
// An extent may begin and end within a frame: what of it belongs to other rows
// is told with those.
func (w *entryWalk) frame(f wal.Frame, pos wal.Position, seq, last uint32) (uint32, error) {
	b, err := decodeBatch(f.Payload)
	if err != nil {
		return 0, err
	}
	at := b.stamp.find(w.num)
	if at < 0 {
		return seq, nil
	}
	row := uint32(b.stamp.runs[at].seq) // that the entry at hand belongs to
	for i, e := range b.entries {
		if e.run != w.num {
			continue
		}
		if row > last {
			break
		}
		if row >= seq {
			if err := w.fn(entryPlace{pos, uint32(i)}, b, e); err != nil {
				return 0, err
			}
		}
		if e.kind == kindRow {
			row++
		}
	}
	return max(seq, row), nil
}
