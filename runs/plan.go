package runs

import "durafs/wal"

// rowBatchBytes is how much of rows one batch holds, if it is more than one
// row: whoever reads a row reads its batch.
const rowBatchBytes = 128 << 10

// rowPlan says which rows of a group are to be written, and which payloads of
// large ones, in view of what there is.
type rowPlan struct {
	// skip tells per row the number that it has already, or repeatOf+i where
	// it repeats row i of the group, or 0 where it is new; named, whether its
	// payload is there already or stands earlier in the group. Both are nil
	// for a plain group: all is new.
	skip    []uint64
	named   []bool
	fresh   int
	refusal *Refusal
	// moved: what was looked up in sealed segments does not hold any more.
	moved bool
}

// repeatOf marks, above any sequence number, a row that repeats one of its own
// group.
const repeatOf = 1 << 40

// planRows needs mu. sealed is what was found for the group in sealed segments.
func (s *Store) planRows(g *group, sealed *lookup) rowPlan {
	if g.plain {
		return rowPlan{fresh: len(g.rows)}
	}
	if c, i := s.index.at(g.num); c.tail[i] != sealed.tail {
		return rowPlan{moved: true}
	}
	p := rowPlan{skip: make([]uint64, len(g.rows)), named: make([]bool, len(g.rows))}
	var keys, names map[hash16]int
	for i := range g.rows {
		w := &g.rows[i]
		if w.keyed {
			if keys == nil {
				keys = make(map[hash16]int, len(g.rows))
			}
			if p.refusal = s.planKey(g, &p, keys, i, sealed); p.refusal != nil {
				return p
			}
		}
		if p.skip[i] != 0 {
			continue
		}
		p.fresh++
		if w.extra != nil {
			if names == nil {
				names = map[hash16]int{}
			}
			_, here := names[w.name]
			p.named[i] = here || s.hasName(w.name, sealed)
			names[w.name] = i
		}
	}
	return p
}

func (s *Store) planKey(g *group, p *rowPlan, keys map[hash16]int, i int, sealed *lookup) *Refusal {
	w := &g.rows[i]
	if first, ok := keys[w.key]; ok {
		if g.rows[first].body != w.body {
			return refuse(KeyConflict, "its key is that of row %d, and its body is another", first+1).atRow(i + 1)
		}
		p.skip[i] = repeatOf + uint64(first)
		return nil
	}
	keys[w.key] = i
	if have, ok := s.keyedRow(w.key, sealed); ok {
		if have.body != w.body {
			r := refuse(KeyConflict, "its key is that of the row with seq %d, and its body is another", have.seq).atRow(i + 1)
			r.Seq = uint64(have.seq)
			return r
		}
		p.skip[i] = uint64(have.seq)
	}
	return nil
}

func (p rowPlan) same(q rowPlan) bool {
	if p.moved || q.moved || (p.refusal == nil) != (q.refusal == nil) || len(p.skip) != len(q.skip) {
		return false
	}
	if p.refusal != nil {
		return p.refusal.Row == q.refusal.Row && p.refusal.Seq == q.refusal.Seq
	}
	for i := range p.skip {
		if p.skip[i] != q.skip[i] || p.named[i] != q.named[i] {
			return false
		}
	}
	return true
}

// batches encodes the rows that are new; what does not fit into one batch goes
// on in the next, of the same decision. So up to wal.GroupBytesMax of rows
// still have one barrier.
func (p rowPlan) batches(g *group) []*wal.Batch {
	if p.refusal != nil || p.fresh == 0 {
		return nil
	}
	var batches []*wal.Batch
	entries, size := make([]entry, 0, p.fresh), 0
	add := func(es ...entry) {
		n := entriesBytes(es)
		if size > 0 && size+n > rowBatchBytes {
			batches = append(batches, newRowBatch(g.num, entries))
			entries, size = nil, 0
		}
		entries, size = append(entries, es...), size+n
	}
	for i := range g.rows {
		switch w := &g.rows[i]; {
		case p.skips(i):
		case w.extra != nil && !p.named[i]:
			add(*w.extra, w.entry)
		default:
			add(w.entry)
		}
	}
	return append(batches, newRowBatch(g.num, entries))
}

func (p rowPlan) skips(i int) bool { return p.skip != nil && p.skip[i] != 0 }

// number tells the rows their sequence numbers, the new ones from last on.
func (p rowPlan) number(g *group, last uint64) {
	for i := range g.rows {
		w := &g.rows[i]
		w.repeated = p.skips(i)
		switch {
		case !w.repeated:
			last++
			w.seq = last
		case p.skip[i] >= repeatOf:
			w.seq = g.rows[p.skip[i]-repeatOf].seq
		default:
			w.seq = p.skip[i]
		}
	}
}
