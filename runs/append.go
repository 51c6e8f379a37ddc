package runs

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"durafs/cas"
	"durafs/wal"
)

// Bounds of one Append.
const (
	AppendRowsMax  = 16 << 10
	AppendBytesMax = 64 << 20 // of its rows as they come
	// AppendTextBytesMax bounds what of it goes into the log itself.
	AppendTextBytesMax = 8 << 20
	// SeqMax is the highest number of an agent's row; a run that has it is
	// full. Behind it there is room for the store's own rows.
	SeqMax = maxUint32 - 1<<20
)

// Append appends rows as one unit and returns when they are durable. keyField
// names the rows' field that holds their idempotency key, "" for none: a row
// whose key is known is not written again but answered as the first time if
// its body is the same, and refused otherwise. Needs the writer token.
func (s *Store) Append(ctx context.Context, c Caller, id string, rows []Row, keyField string) (Appended, error) {
	wait, err := s.appendStart(ctx, c, id, rows, keyField, nil, s.log.SubmitWaiting)
	if err != nil {
		return Appended{}, err
	}
	return wait(ctx)
}

// AppendStart is Append without the wait: the rows are accepted, in the order
// of the calls, when it returns; wait returns when they are durable. It lets
// one stream keep several groups on their way: those of one chain (nil for
// none) never stand behind a gap. rows is the store's until wait has returned
// for another reason than its context.
//
// What needs no barrier to be known (a bad row, a full queue or disk) is
// refused here, and nothing was accepted then.
func (s *Store) AppendStart(ctx context.Context, c Caller, id string, rows []Row, keyField string, ch *Chain) (wait func(context.Context) (Appended, error), err error) {
	return s.appendStart(ctx, c, id, rows, keyField, ch, s.log.Submit)
}

// submit is how a group is given to the log: by Submit, or by SubmitWaiting
// where the caller waits next.
type submit func(wal.Class, func(lsn uint64) wal.Decision) wal.Ticket

func (s *Store) appendStart(ctx context.Context, c Caller, id string, rows []Row, keyField string, ch *Chain, by submit) (wait func(context.Context) (Appended, error), err error) {
	num, epoch, err := s.gate(ctx, c, id, evWrite)
	if err != nil {
		return nil, s.lateRows(ctx, num, epoch, rows, err)
	}
	if slices.ContainsFunc(rows, mayBeLarge) {
		defer s.cas.Hold()()
	}
	g, err := s.prepareRows(ctx, num, rows, keyField)
	if err != nil {
		return nil, s.denied(num, err)
	}
	g.caller, g.epoch, g.chain, g.by = c, epoch, ch, by
	var t wal.Ticket
	err = retry(ctx, func() (done bool, err error) {
		t, done, err = s.submitRows(ctx, g)
		return done, err
	})
	if err != nil {
		return nil, s.denied(num, err)
	}
	return func(ctx context.Context) (Appended, error) {
		err := s.denied(num, s.noticed(t.Wait(ctx)))
		if err == nil {
			giveBodies(g.batches)
			g.batches = nil
		}
		if err != nil {
			return Appended{}, s.lateRows(ctx, num, epoch, rows, g.maybePart(t.LSN() != 0, err))
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
	chain  *Chain
	by     submit

	batches []*wal.Batch
	frames  int  // bytes of the log that it was encoded into, at most
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
	total, text := 0, 0
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
			text += previewHead
		} else if text += len(sc.text); text > AppendTextBytesMax {
			return nil, tooLarge("rows", int64(text), AppendTextBytesMax)
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

// mayBeLarge reports whether a row may become one whose body is a payload, which
// is decided by its length as the log has it: escapes may make that up to six
// times as long.
func mayBeLarge(r Row) bool { return len(r.JSON) > RowTextBytesMax/8 }

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
	name := rowBodyPrefix + hexB3(sc.text)[:32]
	if free, err := s.nameFree(num, name); err != nil {
		return err
	} else if free && !w.keyed { // else it may repeat one that is there
		if err := s.noRoomNow(num, int64(len(sc.text)), "rows"); err != nil {
			return err
		}
	}
	ref, err := s.cas.Put(ctx, bytes.NewReader(sc.text))
	if err != nil {
		return err
	}
	p := rowBody(ref)
	e := p.entry(num)
	w.extra, w.name = &e, nameHash(num, p.name)
	r := row{flags: rowPreview, text: preview(sc, p.name, ref.ID.String())}
	if w.keyed {
		r.flags, r.key, r.body = r.flags|rowKeyed, w.key, w.body
	}
	w.entry = r.entry(num)
	return nil
}

// rowBody is the payload that holds the whole of a large row.
func rowBody(ref cas.Ref) payload {
	return payload{
		name:   rowBodyPrefix + hex.EncodeToString(ref.ID[:16]),
		source: numLogBody, contentType: "application/json", ref: ref,
	}
}

// submitRows encodes what of the group is new and submits it. Not done: what
// is new has changed meanwhile. An error is the log's own, which did not ask.
func (s *Store) submitRows(ctx context.Context, g *group) (t wal.Ticket, done bool, err error) {
	sealed, err := s.lookUp(g)
	if err != nil {
		return t, false, err
	}
	s.mu.RLock()
	plan := s.planRows(g, sealed)
	s.mu.RUnlock()
	if plan.moved {
		return t, false, nil
	}
	batches := plan.batches(g)
	g.batches, g.frames = batches, framesBytes(batches)
	asked, again := false, false
	t = g.by(wal.Ordinary, s.locked(func(lsn uint64) (d wal.Decision) {
		asked = true
		l := s.view(g.num)
		if g.chain != nil && g.chain.cut {
			return l.answer(errBehindGap)
		}
		if now := s.planRows(g, sealed); !now.same(plan) {
			again = true
			return wal.Decision{}
		}
		d = s.acceptRows(g, l, lsn, plan)
		if d.Err != nil && g.chain != nil {
			g.chain.cut = true
		}
		return d
	}))
	if again || !asked {
		giveBodies(batches)
	}
	if !asked {
		return t, true, s.noticed(t.Wait(ctx))
	}
	return t, !again, nil
}

// acceptRows is the accept step of a group, whose plan still holds.
func (s *Store) acceptRows(g *group, l *live, lsn uint64, plan rowPlan) wal.Decision {
	if r := s.fence(l, g.caller, g.epoch, evWrite); r != nil {
		return l.answer(r)
	}
	if plan.refusal != nil {
		return l.answer(plan.refusal)
	}
	if l.seq+uint64(plan.fresh) > SeqMax {
		r := refuse(RunFull, "the run has %d rows, and the limit is %d", l.seq, SeqMax)
		r.Size, r.Limit = int64(l.seq), SeqMax
		return l.answer(r)
	}
	if len(g.batches) > 0 {
		if r := s.noRoom(l, "rows", g.batches...); r != nil {
			return l.answer(r)
		}
	}
	plan.number(g, l.seq)
	d := l.answer(nil)
	if len(g.batches) > 0 {
		d = s.accept(l, lsn, g.batches...)
	}
	s.chained(g.chain, l.lastLSN)
	return d
}

// maybePart tells the truth about a group that may have had several barriers,
// when one of them was refused. What fits into one group of the log was
// refused as a whole, and what was not accepted was never there.
func (g *group) maybePart(accepted bool, err error) error {
	var full *wal.NoSpaceError
	if accepted && g.frames > wal.GroupBytesMax && (errors.Is(err, wal.ErrRefused) || errors.As(err, &full)) {
		return fmt.Errorf("%w; the first of the rows may have been kept (%w)", wal.ErrUnknown, err)
	}
	return err
}

// framesBytes bounds what batches of one run take in the log.
func framesBytes(batches []*wal.Batch) (n int) {
	const frameOverheadMax = 64 // header and padding
	for _, b := range batches {
		n += len(b.Body) + stampRunBytes + stampTailBytes + frameOverheadMax
	}
	return n
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
