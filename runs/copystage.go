package runs

import (
	"context"
	"slices"

	"durafs/projection"
	"durafs/wal"
)

// A prefix can be larger than a batch. So its rows and payloads are written
// first, under the copy's number, in batches that each begin with a staged entry:
// nobody sees them (staged.go). The last batch is that of any start, and makes
// all of it visible:
//
//	staged, rows and what they tell of  }
//	staged, a payload                   } one write and one barrier
//	…                                   } for each step
//	admission, record, the store's row "copied", ends of calls, journal, thread
//
// Each batch of the source becomes one of the copy with the same time, since
// readers are shown that, and in the same order, so that a copy can be copied.
// What a crash, or a refusal, leaves of it is ignored for good, and the number is
// not given again.
type copying struct {
	s      *Store
	src    uint32
	source *record
	kind   projection.CopyKind
	call   uint64

	// These are set by stage.
	cut     copyCut
	num     uint32
	l       *live // of which only numbers are used before the admission
	rewrite rewriter
	last    []entry // what the admission has behind the prefix
	done    bool    // it is admitted

	// payloads are where the source's are, of which those up to next are written.
	payloads []place
	next     uint32
	// opened are the calls without an outcome so far.
	opened []openCall
	// entries are those of the batch that is made, at its time.
	entries []entry
	bytes   int
	at      int64
	// batches are those of the next step.
	batches    []*wal.Batch
	batchBytes int
}

// Bounds of a step: how long it keeps others from the accept step, and how much
// is in memory.
const (
	copyStepBytes   = wal.BatchBytesMax
	copyStepBatches = 256
	// copyBatchBytes bounds the entries of a staged batch.
	copyBatchBytes = wal.BatchBytesMax - stampRunBytes - stampTailBytes - entryHeaderBytes
)

// stage writes the prefix, once.
func (c *copying) stage(ctx context.Context, a *starting) error {
	if c.l != nil {
		return nil
	}
	select {
	case c.s.copies <- struct{}{}:
		defer func() { <-c.s.copies }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := c.stagePrefix(ctx, a)
	if rotten(err) != nil {
		c.s.foundDamage(c.src, err)
		return c.s.refusedCopy(c.src)
	}
	return err
}

func (c *copying) stagePrefix(ctx context.Context, a *starting) (err error) {
	if c.cut, err = c.s.cutOf(ctx, c.src, c.kind, c.call); err != nil {
		return err
	}
	if a.req.ID == "" {
		a.req.ID = newID(c.s.clock)
	}
	c.num = c.s.numbers.Add(1)
	c.l = &live{num: c.num}
	c.rewrite = rewriter{from: c.source.ID, to: a.req.ID, num: c.num, deleted: c.deleted}
	if err := c.stageRows(ctx); err != nil {
		return err
	}
	c.last, err = c.rowEntries(ctx, c.s.firstRecord(a), a.req.Message)
	return err
}

// stageRows writes the rows of the prefix, with the calls that they tell of, and
// before each batch of them the payloads that were put by themselves.
func (c *copying) stageRows(ctx context.Context) (err error) {
	if c.payloads, _, _, _, err = c.s.payloadPlaces(c.src); err != nil {
		return err
	}
	var pos wal.Position
	err = c.s.walkPlaces(c.src, c.cut.rows, func(p entryPlace, b *batch, e entry) error {
		if p.pos != pos {
			if err := c.stagePayloads(ctx, b.stamp.runs[b.stamp.find(c.src)].ordinal); err != nil {
				return err
			}
			pos, c.at = p.pos, b.stamp.at
			c.rewrite.begin()
		}
		if e.kind == kindPayload {
			if c.next++; c.payloads[c.next-1] == deletedPlace {
				return nil
			}
		}
		if err := c.noteCall(e); err != nil {
			return err
		}
		return c.add(ctx, e)
	})
	if err != nil {
		return err
	}
	if err := c.stagePayloads(ctx, c.cut.payloads); err != nil {
		return err
	}
	return c.step(ctx)
}

// stagePayloads ends the batch that is made, and writes the payloads below the
// ordinal upto that are not written.
func (c *copying) stagePayloads(ctx context.Context, upto uint32) error {
	err := c.endBatch(ctx)
	for ; err == nil && c.next < upto; c.next++ {
		switch {
		case c.next >= uint32(len(c.payloads)), c.payloads[c.next] == place{}:
			return c.s.refusedCopy(c.src) // it was lost
		case c.payloads[c.next] == deletedPlace:
			continue
		}
		b, e, rerr := c.s.readEntry(c.payloads[c.next], kindPayload)
		if rerr != nil {
			return rerr
		}
		c.at = b.stamp.at
		if err := c.add(ctx, e); err != nil {
			return err
		}
		err = c.endBatch(ctx)
	}
	return err
}

// deleted reports whether an owner has deleted a payload of the source.
func (c *copying) deleted(name string) (bool, error) {
	f, err := c.s.findAny(c.src, name)
	return f != nil && f.deleted != nil, err
}

// noteCall keeps which calls are open.
func (c *copying) noteCall(e entry) error {
	switch e.kind {
	case kindClaim:
		cl, err := parseClaim(e)
		if err == nil && cl.Attempt == 1 {
			c.opened = append(c.opened, openCall{Call: cl.Call})
		}
		return err
	case kindOutcome:
		o, err := parseOutcome(e)
		if err == nil {
			c.opened = slices.DeleteFunc(c.opened, func(open openCall) bool { return open.Call == o.Call })
		}
		return err
	}
	return nil
}

// add adds what the copy has of an entry to the batch that is made. A batch is
// cut behind rows only, since what stands before a row belongs to it.
func (c *copying) add(ctx context.Context, e entry) error {
	out, ok, err := c.rewrite.entry(e)
	if err != nil || !ok {
		return err
	}
	n := entryHeaderBytes + len(out.body)
	if last := len(c.entries) - 1; last >= 0 && c.entries[last].kind == kindRow && c.bytes+n > copyBatchBytes {
		if err := c.endBatch(ctx); err != nil {
			return err
		}
	}
	c.entries, c.bytes = append(c.entries, out), c.bytes+n
	return nil
}

// endBatch puts the batch that is made behind those of the next step, and makes
// the step when there is enough for one.
func (c *copying) endBatch(ctx context.Context) error {
	if len(c.entries) == 0 {
		return nil
	}
	b := newBatch(c.num, append([]entry{{kind: kindStaged, run: c.num}}, c.entries...)...)
	b.Value.(*batch).copiedAt = c.at
	c.entries, c.bytes = nil, 0
	if c.batchBytes+len(b.Body) > copyStepBytes || len(c.batches) == copyStepBatches {
		if err := c.step(ctx); err != nil {
			return err
		}
	}
	c.batches, c.batchBytes = append(c.batches, b), c.batchBytes+len(b.Body)
	return nil
}

// step makes the batches durable. It waits for that whatever becomes of ctx, so
// that nothing is on its way when the copy is given up.
func (c *copying) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(c.entries) > 0 {
		if err := c.endBatch(ctx); err != nil {
			return err
		}
	}
	if len(c.batches) == 0 {
		return nil
	}
	if c.s.copyStep != nil {
		c.s.copyStep(c.batches)
	}
	err := c.s.do(context.WithoutCancel(ctx), wal.Ordinary, func(lsn uint64) wal.Decision {
		if err := c.broken(); err != nil {
			return wal.Decision{Err: err}
		}
		if r := c.s.noRoom(c.l, "run", c.batches...); r != nil {
			return wal.Decision{Err: r}
		}
		return c.s.accept(c.l, lsn, c.batches...)
	})
	c.batches, c.batchBytes = nil, 0
	return err
}

// broken is why the copy cannot go on, nil if it can; mu is held.
func (c *copying) broken() error {
	if c == nil {
		return nil
	}
	x := &c.s.index
	k, i := x.at(c.num)
	src, n := x.at(c.src)
	switch {
	case c.s.view(c.src).gone():
		return unknownRun(c.source.ID)
	case x.isDamaged(c.src):
		return c.s.refuseDamaged(c.src)
	case src.flags[n]&flagCompacted != 0:
		return logCompacted(c.source.ID)
	case uint64(k.lastSeq[i]) != c.l.seq || k.payloads[i] != c.l.ordinals:
		return wal.ErrBusy // what was written of it is not there any more
	}
	return nil
}

// live is the state to admit the copy with, nil for a run of its own.
func (c *copying) live() *live {
	if c == nil {
		return nil
	}
	return c.l
}

// waits is the context to wait with for the admission: see step.
func (c *copying) waits(ctx context.Context) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

func (c *copying) admitted() {
	if c != nil {
		c.done = true
	}
}

// end forgets a copy that was not admitted.
func (c *copying) end() {
	if c.l == nil || c.done {
		return
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	was := c.s.index.bytes
	c.s.index.dropStaged(c.num)
	c.s.acc.bytes -= was - c.s.index.bytes
}
