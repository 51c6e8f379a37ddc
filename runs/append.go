package runs

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"durafs/wal"
)

// Bounds of one Append.
const (
	AppendRowsMax  = 16 << 10
	AppendBytesMax = 64 << 20 // of its rows as they come
	// SeqMax is the highest number of an agent's row; a run that has it is
	// full. Behind it there is room for the store's own rows.
	SeqMax = maxUint32 - 1<<20
)

// rowBatchBytes is how much of rows one batch holds, if it is more than one
// row: whoever reads a row reads its batch.
const rowBatchBytes = 128 << 10

// Append appends rows as one unit and returns when they are durable. keyField
// names the rows' field that holds their idempotency key, "" for none: a row
// whose key is known is not written again but answered as the first time if
// its body is the same, and refused otherwise. Needs the writer token.
func (s *Store) Append(ctx context.Context, c Caller, id string, rows []Row, keyField string) (Appended, error) {
	wait, err := s.AppendStart(ctx, c, id, rows, keyField)
	if err != nil {
		return Appended{}, err
	}
	return wait(ctx)
}

// AppendStart is Append without the wait: the rows are accepted, in the order
// of the calls, when it returns; wait returns when they are durable. It lets
// one stream keep many groups in flight. rows is the store's until then.
func (s *Store) AppendStart(ctx context.Context, c Caller, id string, rows []Row, keyField string) (wait func(context.Context) (Appended, error), err error) {
	num, epoch, err := s.gate(ctx, c, id, evWrite)
	if err != nil {
		return nil, s.lateRows(ctx, num, epoch, rows, err)
	}
	g, err := s.prepareRows(ctx, num, rows, keyField)
	if err != nil {
		return nil, err
	}
	g.caller, g.epoch = c, epoch
	var t wal.Ticket
	err = retry(ctx, func() (bool, error) {
		done := false
		t, done = s.submitRows(g)
		return done, nil
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Appended, error) {
		if err := t.Wait(ctx); err != nil {
			return Appended{}, s.lateRows(ctx, num, epoch, rows, g.maybePart(err))
		}
		return g.answer(), nil
	}, nil
}

// group is the rows of one Append on their way.
type group struct {
	caller Caller
	epoch  uint64
	num    uint32
	rows   []groupRow

	batches int  // how many it was encoded into
	plain   bool // no row has a key or a body beside the log
}

type groupRow struct {
	entry entry
	keyed bool
	key   hash16
	body  hash16

	// extra is the payload entry of a row that is too large for the log, and
	// name its name's hash.
	extra *entry
	name  hash16

	seq      uint64 // as it was given, or as it was the first time
	repeated bool
}

// prepareRows checks and encodes rows, and makes the bodies of large ones
// durable.
func (s *Store) prepareRows(ctx context.Context, num uint32, rows []Row, keyField string) (*group, error) {
	if len(rows) > AppendRowsMax {
		r := refuse(TooLarge, "the request has %d rows, and the limit is %d", len(rows), AppendRowsMax)
		r.Field, r.Size, r.Limit = "rows", int64(len(rows)), AppendRowsMax
		return nil, r
	}
	total := 0
	g := &group{num: num, rows: make([]groupRow, len(rows))}
	large := map[int]scanned{}
	for i, in := range rows {
		if total += len(in.JSON); total > AppendBytesMax {
			return nil, tooLarge("rows", int64(total), AppendBytesMax)
		}
		sc, r := scanRow(in.JSON, keyField)
		if r != nil {
			return nil, r.atRow(i + 1)
		}
		g.rows[i].prepare(num, sc)
		if len(sc.text) > RowTextBytesMax {
			large[i] = sc
		}
	}
	g.plain = keyField == "" && len(large) == 0
	for i := range g.rows { // only when all of them are known to be good
		if sc, ok := large[i]; ok {
			if err := s.putRowBody(ctx, num, &g.rows[i], sc); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

func (w *groupRow) prepare(num uint32, sc scanned) {
	r := row{text: sc.text}
	if sc.key != nil {
		w.keyed, w.key, w.body = true, hashOf(num, []byte("row"), sc.key), bodyHash(sc.text)
		r.flags, r.key, r.body = rowKeyed, w.key, w.body
	}
	w.entry = r.entry(num)
}

// putRowBody makes the body of a large row durable as a payload, and lets the
// row be a preview that names it.
func (s *Store) putRowBody(ctx context.Context, num uint32, w *groupRow, sc scanned) error {
	ref, err := s.cas.Put(ctx, bytes.NewReader(sc.text))
	if err != nil {
		return err
	}
	p := payload{
		name:   rowBodyPrefix + hex.EncodeToString(ref.ID[:16]),
		source: numLogBody, contentType: "application/json", ref: ref,
	}
	e := p.entry(num)
	w.extra, w.name = &e, nameHash(num, p.name)
	r := row{flags: rowPreview, text: preview(sc, p.name, ref.ID.String())}
	if w.keyed {
		r.flags, r.key, r.body = r.flags|rowKeyed, w.key, w.body
	}
	w.entry = r.entry(num)
	return nil
}

// submitRows encodes what of the group is new and submits it. Not done: what
// is new has changed meanwhile.
func (s *Store) submitRows(g *group) (t wal.Ticket, done bool) {
	s.mu.RLock()
	plan := s.planRows(g)
	s.mu.RUnlock()
	batches := plan.batches(g)
	g.batches = len(batches)
	done = true
	t = s.decide(wal.Ordinary, func(lsn uint64) wal.Decision {
		l := s.view(g.num)
		if r := s.fence(l, g.caller, g.epoch, evWrite); r != nil {
			return l.answer(r)
		}
		if now := s.planRows(g); !now.same(plan) {
			done = false
			return wal.Decision{}
		}
		if plan.refusal != nil {
			return l.answer(plan.refusal)
		}
		if l.seq+uint64(plan.fresh) > SeqMax {
			r := refuse(RunFull, "the run has %d rows, and the limit is %d", l.seq, SeqMax)
			r.Size, r.Limit = int64(l.seq), SeqMax
			return l.answer(r)
		}
		plan.number(g, l.seq)
		if len(batches) == 0 {
			return l.answer(nil)
		}
		return s.accept(l, lsn, batches...)
	})
	return t, done
}

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
}

// repeatOf marks, above any sequence number, a row that repeats one of its own
// group.
const repeatOf = 1 << 40

// planRows needs mu.
func (s *Store) planRows(g *group) rowPlan {
	if g.plain {
		return rowPlan{fresh: len(g.rows)}
	}
	p := rowPlan{skip: make([]uint64, len(g.rows)), named: make([]bool, len(g.rows))}
	var keys, names map[hash16]int
	for i := range g.rows {
		w := &g.rows[i]
		if w.keyed {
			if keys == nil {
				keys = make(map[hash16]int, len(g.rows))
			}
			if p.refusal = s.planKey(g, &p, keys, i); p.refusal != nil {
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
			p.named[i] = here || s.hasName(w.name)
			names[w.name] = i
		}
	}
	return p
}

func (s *Store) planKey(g *group, p *rowPlan, keys map[hash16]int, i int) *Refusal {
	w := &g.rows[i]
	if first, ok := keys[w.key]; ok {
		if g.rows[first].body != w.body {
			return refuse(KeyConflict, "its key is that of row %d, and its body is another", first+1).atRow(i + 1)
		}
		p.skip[i] = repeatOf + uint64(first)
		return nil
	}
	keys[w.key] = i
	if have, ok := s.keyedRow(w.key); ok {
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
	if (p.refusal == nil) != (q.refusal == nil) || len(p.skip) != len(q.skip) {
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
			batches = append(batches, newBatch(g.num, entries...))
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
	return append(batches, newBatch(g.num, entries...))
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

// maybePart tells the truth about a group of several batches, which may have
// had several barriers, when one of them was refused.
func (g *group) maybePart(err error) error {
	var full *wal.NoSpaceError
	if g.batches > 1 && (errors.Is(err, wal.ErrRefused) || errors.As(err, &full)) {
		return fmt.Errorf("%w; the first of the rows may have been kept (%w)", wal.ErrUnknown, err)
	}
	return err
}

func (g *group) answer() Appended {
	a := Appended{Rows: len(g.rows)}
	if len(g.rows) == 0 {
		return a
	}
	a.FirstSeq, a.LastSeq, a.Replayed = g.rows[0].seq, g.rows[len(g.rows)-1].seq, true
	for i := range g.rows {
		a.Replayed = a.Replayed && g.rows[i].repeated
	}
	return a
}
