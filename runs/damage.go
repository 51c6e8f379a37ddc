package runs

import (
	"maps"
	"slices"
	"strconv"

	"durafs/wal"
)

// A run is damaged when something of it that was durable cannot be read any
// more. It can still be read, with what is lost named, and it takes no writes
// until it is repaired: nobody knows what the lost batch made of it. Other runs
// are not touched.
//
// Numbers are never given twice, so what a lost batch may have taken counts as
// taken. Its header tells how many entries it had: it gave at most so many
// sequence numbers, revisions, epochs and ordinals. These bounds stand until a
// later batch of the run is read, whose stamp says exactly which numbers came
// before it; where there is none, they stay.
//
// In the log, which is what readers go by, one line takes the place of rows
// that are gone:
//
//	{"by":"store","type":"damaged","seq_from":5,"seq_to":7}
//
// seq_to is the highest number that may have been given, and null where nobody
// can tell: then the store is open for reading only, and the run was not over
// when something was lost that may have been of any run.
type damage struct {
	// rows counts those that the log has not any more, payloads the names.
	rows     uint64
	payloads uint32
	// changes counts how often the log became another one.
	changes uint32
	// loss is the newest loss, while no later batch of the run was read.
	loss *loss
	// revision is the last that is certain while the record that followed may
	// be lost; 0: none is. epoch is the highest that may have been given.
	revision uint32
	epoch    uint32
	// log is where the rows are, where the run's list of extents does not say
	// so any more; nil: it does.
	log []extent
	// apart: its footers tell nothing of it from here on; see apart.go.
	apart bool
	// seen are the places that were found damaged by readers.
	seen map[damagePlace]bool
}

// loss is what was certain before something was lost.
type loss struct {
	seq, ordinal uint32 // the first that may have been given
	off          int64  // of the line in the log
	endless      bool   // nobody knows how much it is
}

// isDamaged reports whether the run takes no writes.
func (x *index) isDamaged(num uint32) bool { return x.damaged[num] != nil }

// isDamaged is the index's, for whoever does not hold mu.
func (s *Store) isDamaged(num uint32) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.isDamaged(num)
}

func (x *index) damageOf(num uint32) *damage {
	d := x.damaged[num]
	if d == nil {
		d = &damage{}
		x.damaged[num] = d
	}
	return d
}

// lose enters a batch that cannot be read. Replay comes through here.
func (x *index) lose(lost *wal.DamageError) {
	if lost.Run != 0 && lost.Run <= maxUint32 {
		x.newest = max(x.newest, uint32(lost.Run))
		x.loseOf(uint32(lost.Run), lost.Count)
		return
	}
	// It may have been of any run that was not over, and of runs that nobody
	// has heard of.
	x.lostAny = true
	for _, num := range x.byAdmit {
		if !x.phase(num).sealed() {
			x.loseOf(num, 0)
		}
	}
}

// loseOf enters the loss of up to count entries of a run; 0: of any number.
func (x *index) loseOf(num, count uint32) {
	d := x.damageOf(num)
	d.apart = true
	c, i := x.at(num)
	if !x.known(num) {
		return // its start is lost, and with it who it is
	}
	if d.loss == nil {
		d.loss = &loss{seq: c.lastSeq[i] + 1, ordinal: c.payloads[i], off: c.logBytes[i]}
		x.pushExtent(num, makeExtent(wal.Position{}, d.loss.seq, d.loss.off))
		d.changes++
	}
	if count == 0 {
		d.loss.endless = true
	}
	c.lastSeq[i] = boundedAdd(c.lastSeq[i], count)
	c.payloads[i] = boundedAdd(c.payloads[i], count)
	if x.phase(num) != PhaseNone { // else it is to come, and has no record before it has
		if d.revision == 0 {
			d.revision = c.revision[i]
		}
		c.revision[i] = boundedAdd(c.revision[i], count)
		d.epoch = max(d.epoch, boundedAdd(c.epoch[i], count))
	}
	x.setLogBytes(c, i, d.loss.off+int64(len(d.loss.line(nil, c.lastSeq[i]))))
}

func boundedAdd(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), maxUint32)) }

// found ends a loss: a batch of the run was read whose first row has, or would
// have, the number seq, and its first payload the ordinal.
func (x *index) found(num uint32, seq uint64, ordinal uint32) error {
	d := x.damaged[num]
	if d == nil || d.loss == nil {
		return nil
	}
	l := d.loss
	if seq < uint64(l.seq) || seq > maxUint32 || ordinal < l.ordinal {
		return badBatch("its run %d has gone back to the number %d, ordinal %d", num, seq, ordinal)
	}
	c, i := x.at(num)
	d.loss = nil
	c.lastSeq[i], c.payloads[i] = uint32(seq)-1, ordinal
	for range ordinal - l.ordinal {
		x.pushPayload(num, hash16{}, place{})
		d.payloads++
	}
	c.payloads[i] = ordinal
	if seq == uint64(l.seq) { // no row is lost
		x.popExtent(num)
		x.setLogBytes(c, i, l.off)
		return nil
	}
	l.endless = false
	d.rows += seq - uint64(l.seq)
	x.setLogBytes(c, i, l.off+int64(len(l.line(nil, c.lastSeq[i]))))
	return nil
}

// line is what stands in the log for the rows from l.seq to the row to.
func (l *loss) line(dst []byte, to uint32) []byte {
	return appendGap(dst, l.seq, to, l.endless)
}

func appendGap(dst []byte, from, to uint32, endless bool) []byte {
	dst = append(dst, `{"by":"store","type":"damaged","seq_from":`...)
	dst = strconv.AppendUint(dst, uint64(from), 10)
	dst = append(dst, `,"seq_to":`...)
	if endless {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendUint(dst, uint64(to), 10)
	}
	return append(dst, "}\n"...)
}

// isGap reports whether an extent stands for rows that are gone.
func (e extent) isGap() bool { return e.segment == 0 }

// rowsLeft counts the rows of the log, without those that are known to be lost.
func (d *damage) rowsLeft(lastSeq uint32) uint64 {
	rows := uint64(lastSeq) - d.rows
	if d.loss != nil {
		rows -= uint64(lastSeq) - uint64(d.loss.seq-1)
	}
	return rows
}

// revive admits a run whose admission was lost, by a record of it: that says
// who it is. ok is false where its id has been given to another run since.
func (x *index) revive(e entry, lsn uint64, at int64, seq uint64, ordinal uint32) (ok bool, err error) {
	rec, err := parseRecord(e, unixTime(at))
	if err != nil {
		return false, err
	}
	if x.find(rec.ID) != 0 {
		return false, nil
	}
	if seq == 0 || seq > maxUint32 {
		return false, badBatch("its run %d has the number %d", e.run, seq)
	}
	c, i := x.admit(e.run, &admission{id: rec.ID, parent: rec.Parent, labels: rec.Labels})
	c.admission[i], c.started[i], c.heartbeat[i] = lsn, at, at
	c.revision[i], c.epoch[i] = uint32(rec.revision)-1, uint32(rec.epoch)
	x.setPhase(e.run, Running)
	x.loseOf(e.run, 0)
	return true, x.found(e.run, seq, ordinal)
}

// epochMax is the highest epoch that a run may be in, of which it is known to
// be in now.
func (x *index) epochMax(num uint32, now uint64) uint64 {
	if d := x.damaged[num]; d != nil {
		return max(now, uint64(d.epoch))
	}
	return now
}

// shellOf is a run's record where that cannot be read: what the index knows.
func (s *Store) shellOf(num uint32) *record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := &s.index
	c, i := x.at(num)
	rec := &record{
		revision: uint64(c.revision[i]), epoch: uint64(c.epoch[i]), uid: c.uid[i], phase: c.phase[i],
		ID: x.id(num), Parent: textID(x.parent(num)), Labels: Labels{}, Class: string(UnknownSafety),
	}
	x.labels(num, func(k, v []byte) bool {
		rec.Labels[string(k)] = string(v)
		return true
	})
	return rec
}

// refuseDamaged is the answer to whoever would write to a damaged run.
func (s *Store) refuseDamaged(num uint32) *Refusal {
	r := refuse(RunDamaged, "something of the run that was stored cannot be read any more")
	r.Holder = s.index.id(num)
	return r
}

// isDamage reports whether err is that something stored cannot be read, or the
// refusal of a run of which that is known.
func isDamage(err error) bool {
	return rotten(err) != nil || CodeOf(err) == RunDamaged
}

// Damage tells which runs are damaged.
type Damage struct {
	Runs int
	// Unnamed counts those of them whose start is lost, so that nobody can tell
	// their ids. AnyRun says that something is lost that may have been of any
	// run, of unnamed ones too.
	Unnamed int
	AnyRun  bool
	// IDs are the ids of the others, in the order of their numbers, at most
	// DamageIDsMax.
	IDs []string
	// Payloads are those that readers found damaged since this store was
	// opened, as run/name, sorted, at most DamagePayloadsMax. Their runs are not
	// damaged for that.
	Payloads []string
}

// DamageIDsMax bounds Damage.IDs.
const DamageIDsMax = 100

// DamagePayloadsMax bounds Damage.Payloads.
const DamagePayloadsMax = 100

// Damage tells which runs are damaged now.
func (s *Store) Damage() Damage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := &s.index
	d := Damage{Runs: len(x.damaged), AnyRun: x.lostAny, Payloads: slices.Sorted(maps.Keys(s.rotten))}
	if d.Runs == 0 {
		return d
	}
	for _, num := range slices.Sorted(maps.Keys(x.damaged)) {
		switch {
		case x.phase(num) == PhaseNone:
			d.Unnamed++
		case len(d.IDs) < DamageIDsMax:
			d.IDs = append(d.IDs, x.id(num))
		}
	}
	return d
}

// ReplayLost enters a batch that was durable and cannot be read; it is the
// callback of opening the log that stands beside Replay. What the batch
// referred to is not known any more, so all packs must be kept as they are:
// KeepPacks.
func (s *Store) ReplayLost(d *wal.DamageError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endRestore()
	s.index.lose(d)
	s.losses++
	if d.LSNTo > s.published {
		s.published = d.LSNTo
	}
	return nil
}
