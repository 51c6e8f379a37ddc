package runs

import (
	"context"
	"encoding/json"
	"time"

	"durafs/cas"
	"durafs/wal"
)

// deletion is the body of a deleted entry, JSON: a payload of the run that is
// there no more. It stands in one batch with the row, or where the log is
// sealed the late write, that tells of it. The name stays taken: what was
// written under it was read by others, and other bytes must not pass for it.
type deletion struct {
	Name        string `json:"name"`
	Ordinal     uint32 `json:"ordinal"`
	Source      Source `json:"source"`
	Bytes       int64  `json:"bytes"`
	B3          cas.ID `json:"b3"`
	ContentType string `json:"content_type,omitempty"`
	ByUID       uint32 `json:"by_uid"`
}

func (d *deletion) entry(run uint32) entry {
	return entry{kind: kindDeleted, run: run, body: mustJSON(d)}
}

func parseDeletion(e entry) (*deletion, error) {
	d := new(deletion)
	if err := json.Unmarshal(e.body, d); err != nil || d.Name == "" || d.Bytes < 0 || !sources[parseSource(d.Source)].purge {
		return nil, badBatch("a deletion of it is not as it should be")
	}
	return d, nil
}

// row tells of the deletion in the run's log.
func (d *deletion) row(run uint32) entry {
	return ownRow(run, "type", "payload-deleted", "name", d.Name, "source", d.Source, "bytes", d.Bytes, "b3", d.B3, "by_uid", d.ByUID)
}

// late tells of it in the file of late writes.
func (d *deletion) late(run uint32) entry {
	text := object("what", "payload-deleted", "name", d.Name, "source", d.Source, "bytes", d.Bytes, "b3", d.B3, "by_uid", d.ByUID)
	return entry{kind: kindLate, run: run, body: text}
}

// DeletedPayload tells of a payload that was deleted. Replayed: it had been
// before, and all else is told of that time.
type DeletedPayload struct {
	Name     string    `json:"name"`
	Source   Source    `json:"source"`
	Bytes    int64     `json:"bytes"`
	B3       cas.ID    `json:"b3"`
	ByUID    uint32    `json:"by_uid"`
	At       time.Time `json:"at"`
	Replayed bool      `json:"replayed,omitempty"`
}

// DeletePayload deletes a payload that the agent has put, in whatever phase the
// run is, and returns when that is durable. The run's log says so from then on,
// or the file of late writes where the log is sealed; the payload is listed and
// read no more; its name stays taken. Bytes that other payloads share stay
// theirs. Needs an owner.
//
// Nothing but the log's one barrier makes it durable: no file of chunks is
// touched, and an open reader of the payload reads on until a sweep has taken the
// bytes, and is then told that it was deleted.
func (s *Store) DeletePayload(ctx context.Context, c Caller, id, name string) (DeletedPayload, error) {
	if !c.owns() {
		return DeletedPayload{}, refuse(NotOwner, "only an owner deletes a payload")
	}
	num, err := s.ownersRun(ctx, id)
	if err != nil {
		return DeletedPayload{}, err
	}
	replayed := false
	err = retry(ctx, func() (done bool, err error) {
		replayed, done, err = s.submitDelete(ctx, c, num, name)
		return done, err
	})
	if err != nil {
		return DeletedPayload{}, err
	}
	f, err := s.findAny(num, name)
	if err != nil {
		return DeletedPayload{}, err
	}
	d := f.deleted
	return DeletedPayload{Name: d.Name, Source: d.Source, Bytes: d.Bytes, B3: d.B3, ByUID: d.ByUID, At: f.at, Replayed: replayed}, nil
}

// submitDelete accepts the deletion, or finds it made. Not done: what was found
// under the name has moved meanwhile.
func (s *Store) submitDelete(ctx context.Context, c Caller, num uint32, name string) (replayed, done bool, err error) {
	hash := nameHash(num, name)
	at, tail, err := s.findName(num, hash)
	if err != nil {
		return false, false, err
	}
	var f *found
	if at != (place{}) {
		if f, err = s.readPayload(at); err != nil {
			s.foundDamage(num, err)
			return false, false, err
		}
	}
	var inLog, inLate *wal.Batch
	if f != nil && f.deleted == nil {
		d := &deletion{Name: f.name, Ordinal: f.ordinal, Source: sources[f.source].name, Bytes: f.ref.Bytes, B3: f.ref.ID, ContentType: f.contentType, ByUID: c.UID}
		inLog, inLate = newBatch(num, d.entry(num), d.row(num)), newBatch(num, d.entry(num), d.late(num))
	}
	done = true
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if l.gone() {
			return l.answer(goneRun())
		}
		have, underWay := s.acc.names.entries[hash]
		switch {
		case underWay && have.deleted, f != nil && f.deleted != nil:
			replayed = true
			return l.answer(nil)
		case underWay, s.index.names[hash] != at && (s.index.names[hash] != (place{}) || s.tailNow(num) != tail):
			done = false
			return l.answer(nil)
		case f == nil:
			return l.answer(unknownPayload(name))
		case !sources[f.source].purge:
			return l.answer(protectedPayload(f))
		case l.phase.sealed():
			return s.accept(l, lsn, inLate)
		}
		return s.accept(l, lsn, inLog)
	})
	return replayed, done, err
}

func unknownPayload(name string) *Refusal {
	return fieldRefusal(UnknownPayload, name, "the run has no payload %s", quote(name))
}

func protectedPayload(f *found) *Refusal {
	return fieldRefusal(ProtectedSource, f.name, "the payload %s is of source %s, which is kept as long as the run", quote(f.name), sources[f.source].name)
}

// deletedPayload is what a reader of a payload is told that was deleted.
func deletedPayload(f *found) *Refusal {
	d := f.deleted
	r := fieldRefusal(PayloadDeleted, d.Name, "the payload %s, of %d bytes and BLAKE3 %s, was deleted by uid %d", quote(d.Name), d.Bytes, d.B3, d.ByUID)
	r.Size, r.At = d.Bytes, f.at
	return r
}

// applyDeleted takes a payload out of what is shown; where it was deleted stands
// in its place.
func (x *index) applyDeleted(c *columns, i int, e entry, at place) error {
	d, err := parseDeletion(e)
	if err != nil {
		return err
	}
	name, r := nameHash(e.run, d.Name), x.recentOf(e.run)
	r.deleted = append(r.deleted, namedPlace{name, at})
	x.names[name] = at
	x.deleted[e.run]++
	n := d.Bytes
	if x.isDamaged(e.run) { // that it was put may be lost
		n = min(n, c.otherBytes[i])
	}
	x.addOther(c, i, -n)
	return nil
}

// deletedIn are the payloads of a run that a batch deletes, whose kinds of
// changes are known.
func deletedIn(b *batch, run uint32, kinds ChangeKinds) (list []Deleted) {
	if kinds&ChangedDeleted == 0 {
		return nil
	}
	for _, e := range b.entries {
		if e.kind != kindDeleted || e.run != run {
			continue
		}
		if d, err := parseDeletion(e); err == nil {
			list = append(list, Deleted{d.Name, d.Ordinal})
		}
	}
	return list
}

// addDeleted is applyDeleted for what is derived of a segment.
func (d *derived) addDeleted(r *derivedRun, e entry, at derivedAt) error {
	gone, err := parseDeletion(e)
	if err != nil {
		return err
	}
	name := nameHash(e.run, gone.Name)
	d.names = append(d.names, name)
	r.marks = append(r.marks, mark{kind: kindDeleted, offset: at.pos.Offset, entry: at.place.entry, name: name})
	r.deleted++
	r.row.otherBytes -= gone.Bytes
	return nil
}
