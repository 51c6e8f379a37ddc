package runs

import (
	"fmt"

	"durafs/wal"
)

// apply enters a batch into the index. Replay and Publish come through here:
// what a batch makes depends on the batch and what was applied before it, on
// nothing else. What the batches of a sealed segment make together stands in
// its run table (derive.go), which an open loads instead.
func (x *index) apply(b *batch, lsn uint64, pos wal.Position) (changed ChangeKinds, err error) {
	return x.applyOf(b, lsn, pos, nil)
}

// applyOf is apply of the entries of some runs, and of those only what is not
// of the whole store; nil: of all.
func (x *index) applyOf(b *batch, lsn uint64, pos wal.Position, of map[uint32]bool) (changed ChangeKinds, err error) {
	seqs := make([]uint64, 1, 4)[:0]
	for _, r := range b.stamp.runs {
		seqs = append(seqs, r.seq)
		if len(x.damaged) > 0 {
			if err := x.found(r.run, r.seq, r.ordinal); err != nil {
				return 0, fmt.Errorf("LSN %d: %w", lsn, err)
			}
		}
	}
	for n, e := range b.entries {
		at := makePlace(pos, n)
		if of != nil && !of[e.run] {
			continue
		}
		if e.run == 0 {
			if err := x.applyStore(e, lsn, at); err != nil {
				return 0, fmt.Errorf("LSN %d: %w", lsn, err)
			}
			continue
		}
		if e.kind == kindStaged {
			if err := x.applyStaged(b, e); err != nil {
				return 0, fmt.Errorf("LSN %d: %w", lsn, err)
			}
			continue
		}
		if e.kind != kindAdmission && x.phase(e.run) == PhaseNone && !(b.stages(e.run) && x.known(e.run)) {
			known, err := x.orphan(b, e, lsn, seqs)
			if err != nil {
				return 0, fmt.Errorf("LSN %d: %w", lsn, err)
			}
			if !known {
				continue
			}
		}
		c, i := x.at(e.run)
		var err error
		switch e.kind {
		case kindAdmission:
			err = x.applyAdmission(b, e, lsn, at)
			changed |= ChangedAdmitted
		case kindRecord:
			var kinds ChangeKinds
			kinds, err = x.applyRecord(c, i, e, at, b.stamp.at)
			changed |= kinds
		case kindRow:
			r := b.stamp.find(e.run)
			err = x.applyRow(c, i, e, pos, seqs[r], b.stamp.at)
			seqs[r]++
			changed |= ChangedLog
		case kindPayload:
			err = x.applyPayload(c, i, e, at)
			changed |= ChangedPayload
		case kindBeat:
			c.heartbeat[i] = b.stamp.at
			changed |= ChangedRecord
			continue
		case kindDeleted:
			err = x.applyDeleted(c, i, e, at)
			changed |= ChangedPayload | ChangedDeleted
		case kindLate:
			err = x.applyLate(e, at)
			changed |= ChangedLate
		case kindJournal, kindThread, kindRemoved:
			kinds, err := x.applyBeyond(c, i, e, lsn, at, of != nil)
			if err != nil {
				return 0, fmt.Errorf("LSN %d: %w", lsn, err)
			}
			changed |= kinds
			continue
		case kindOutbox, kindOutboxDone, kindDelivery, kindDelivered:
			if err := x.applyOutbox(e, at); err != nil {
				return 0, fmt.Errorf("LSN %d: %w", lsn, err)
			}
			continue
		case kindClaim, kindOutcome: // the record beside them says what they change
			x.addOther(c, i, int64(len(e.body)))
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("LSN %d: %w", lsn, err)
		}
		c, i = x.at(e.run)
		c.changed[i] = max(c.changed[i], b.stamp.at) // the wall clock may go back, a directory's time must not
	}
	return changed, nil
}

// applyBeyond enters what is of a run and of the whole store; alone: of the run
// alone.
func (x *index) applyBeyond(c *columns, i int, e entry, lsn uint64, at place, alone bool) (changed ChangeKinds, err error) {
	switch {
	case e.kind == kindRemoved && alone:
		return ChangedRemoved, x.applyRemovalOfRun(e, lsn)
	case e.kind == kindRemoved:
		return ChangedRemoved, x.applyRemoval(e, lsn)
	case alone:
	case e.kind == kindThread:
		err = x.applyThread(e, lsn, at)
	default:
		err = x.applyJournal(e, lsn, at)
	}
	if err == nil {
		x.applyOnce(c, i, e)
	}
	return 0, err
}

// orphan is an entry of a run that was never admitted, as far as can be read.
// known is true when it says itself who the run is.
func (x *index) orphan(b *batch, e entry, lsn uint64, seqs []uint64) (known bool, err error) {
	if x.damaged[e.run] == nil && !x.lostAny {
		return false, badBatch("it tells of run %d, which was never admitted", e.run)
	}
	x.newest = max(x.newest, e.run)
	x.damageOf(e.run)
	delete(x.staged, e.run) // it has come, and what said so is lost
	r := b.stamp.find(e.run)
	switch e.kind {
	case kindRecord:
		return x.revive(e, lsn, b.stamp.at, seqs[r], b.stamp.runs[r].ordinal)
	case kindRow:
		seqs[r]++
	case kindPayload:
		b.stamp.runs[r].ordinal++
	}
	return false, nil
}

func (x *index) applyAdmission(b *batch, e entry, lsn uint64, where place) error {
	a, err := parseAdmission(e)
	if err != nil {
		return err
	}
	if x.phase(e.run) != PhaseNone || x.find(a.id) != 0 {
		return badBatch("it admits run %s again", a.id)
	}
	c, i := x.admit(e.run, a)
	c.admission[i], c.started[i], c.heartbeat[i] = lsn, b.stamp.at, b.stamp.at
	x.setPhase(e.run, Running)
	x.phased = max(x.phased, b.stamp.at)
	x.recentOf(e.run).admission = where
	if err := x.unstage(b, e.run); err != nil {
		return err
	}
	if a.keyed {
		x.starts.add(a.key, e.run)
	}
	return nil
}

func (x *index) applyRecord(c *columns, i int, e entry, where place, at int64) (changed ChangeKinds, err error) {
	h, _, err := parseRecordHead(e)
	if err != nil {
		return 0, err
	}
	certain := c.revision[i]
	if d := x.damaged[e.run]; d != nil && d.revision > 0 {
		certain, d.revision = d.revision, 0
		if h.revision > uint64(certain) { // those between are lost
			certain = uint32(h.revision) - 1
		}
		d.epoch = uint32(h.epoch)
	}
	if h.revision != uint64(certain)+1 || h.epoch < uint64(c.epoch[i]) {
		return 0, badBatch("it goes from revision %d to %d, epoch %d to %d", c.revision[i], h.revision, c.epoch[i], h.epoch)
	}
	changed = ChangedRecord
	if h.phase != c.phase[i] {
		changed |= ChangedPhase
		x.phased = max(x.phased, at)
	}
	if h.phase.sealed() && !c.phase[i].sealed() {
		changed |= ChangedSealed
	}
	c.revision[i], c.epoch[i], c.uid[i], c.record[i] = uint32(h.revision), uint32(h.epoch), h.uid, where
	x.setPhase(e.run, h.phase)
	c.flags[i] = c.flags[i]&^recordFlags | h.flags
	return changed, nil
}

func (x *index) applyRow(c *columns, i int, e entry, pos wal.Position, seq uint64, at int64) error {
	w, err := parseRow(e)
	if err != nil {
		return err
	}
	if seq != uint64(c.lastSeq[i])+1 {
		return badBatch("its row of run %d has the number %d, after %d", e.run, seq, c.lastSeq[i])
	}
	off := c.logBytes[i]
	end := off + int64(lineBytes(w.text, w.flags, seq))
	if last, ok := x.lastExtent(e.run); !ok || last.pos() != pos && !last.takes(pos, end) {
		x.pushExtent(e.run, makeExtent(pos, uint32(seq), off))
	}
	c.lastSeq[i] = uint32(seq)
	x.setLogBytes(c, i, end)
	if w.flags&rowKeyed != 0 {
		x.keys[w.key] = keyedRow{body: w.body, seq: uint32(seq)}
	}
	return nil
}

func (x *index) applyPayload(c *columns, i int, e entry, at place) error {
	p, err := parsePayload(e)
	if err != nil {
		return err
	}
	x.pushPayload(e.run, nameHash(e.run, p.name), at)
	c.payloads[i]++
	x.addOther(c, i, p.ref.Bytes)
	return nil
}

func (x *index) applyLate(e entry, at place) error {
	if len(e.body) < len("{}") || e.body[0] != '{' || len(e.body) > LateRowBytesMax {
		return badBatch("a late write of it is not as it should be")
	}
	l, r := x.late[e.run], x.recentOf(e.run)
	r.late = append(r.late, lateRow{at, l.bytes})
	l.rows, l.bytes = l.rows+1, l.bytes+int64(lateLineBytes(e.body))
	x.late[e.run] = l
	return nil
}

// applyStore enters what is of the whole store.
func (x *index) applyStore(e entry, lsn uint64, at place) error {
	if e.kind == kindThread {
		return x.applyThread(e, lsn, at)
	}
	return x.applySetting(e)
}

func (x *whole) applySetting(e entry) error {
	st := e.setting
	if st == nil {
		var err error
		if st, err = parseSetting(e); err != nil {
			return err
		}
	}
	next, err := x.settings.with(st)
	if err != nil {
		return err
	}
	x.settings = next
	return nil
}

// applyOnce remembers what a run's end writes once.
func (x *index) applyOnce(c *columns, i int, e entry) { c.flags[i] |= onceFlag(e) }
