package runs

import (
	"context"
	"io"

	"durafs/wal"
)

// ContentTypeBytesMax bounds a payload's content type.
const ContentTypeBytesMax = 255

// Put stores a payload under a name of the run and returns when it is durable
// and visible. The same name with the same bytes answers replayed; with
// others it is a conflict, and so is a name whose payload was deleted. Needs
// the writer token.
//
// What makes it durable: the chunk store's barrier for the bytes (none up to
// cas.InlineBytesMax), then the log's for the batch that names them.
func (s *Store) Put(ctx context.Context, c Caller, id, name string, source Source, contentType string, r io.Reader) (info PayloadInfo, replayed bool, err error) {
	src, err := checkPut(name, source, contentType)
	if err != nil {
		return PayloadInfo{}, false, err
	}
	num, epoch, err := s.gate(ctx, c, id, evWrite)
	if err != nil {
		return PayloadInfo{}, false, s.keepLate(ctx, num, epoch, err, lateWrite{What: "payload", Name: name})
	}
	if r, err = s.bounded(num, name, r); err != nil {
		return PayloadInfo{}, false, s.denied(num, err)
	}
	defer s.cas.Hold()()
	ref, err := s.cas.Put(ctx, r)
	if err != nil {
		return PayloadInfo{}, false, s.denied(num, err)
	}
	p := payload{name: name, contentType: contentType, source: src, ref: ref}
	err = retry(ctx, func() (done bool, err error) {
		replayed, done, err = s.submitPut(ctx, c, num, epoch, &p)
		return done, err
	})
	if err != nil {
		return PayloadInfo{}, false, s.keepLate(ctx, num, epoch, s.denied(num, err), lateWrite{What: "payload", Name: name})
	}
	info, err = s.PayloadInfo(Ref(num), name)
	if CodeOf(err) == PayloadDeleted { // since
		info, err = (&found{payload: p, at: s.clock.Now().UTC()}).info(), nil
	}
	return info, replayed, err
}

func checkPut(name string, source Source, contentType string) (sourceNumber, error) {
	if err := checkPayloadName(name); err != nil {
		return 0, err
	}
	if source == "" {
		source = SourceNamed
	}
	n := parseSource(source)
	if !sources[n].put {
		r := refuse(ProtectedSource, "a payload of source %s is not a caller's to write", quote(string(source)))
		r.Field = "source"
		return 0, r
	}
	if len(contentType) > ContentTypeBytesMax {
		return 0, tooLarge("content type", int64(len(contentType)), ContentTypeBytesMax)
	}
	for i := range len(contentType) {
		if c := contentType[i]; c < 0x20 || c > 0x7e {
			r := refuse(BadName, "the content type %s is not printable ASCII", quote(contentType))
			r.Field = "content type"
			return 0, r
		}
	}
	return n, nil
}

// submitPut gives the payload its name, unless that is taken. Not done: the
// name has come into use meanwhile.
func (s *Store) submitPut(ctx context.Context, c Caller, num uint32, epoch uint64, p *payload) (replayed, done bool, err error) {
	hash := nameHash(num, p.name)
	at, tail, err := s.findName(num, hash)
	if err != nil {
		return false, false, err
	}
	var have *found
	if at != (place{}) {
		if have, err = s.readPayload(at); err != nil {
			return false, false, err
		}
	}
	b := newBatch(num, p.entry(num))
	done = true
	err = s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evWrite); r != nil {
			return l.answer(r)
		}
		if l.ordinals == maxUint32 {
			return l.answer(refuse(RunFull, "the run has %d payloads", l.ordinals))
		}
		taken, underWay := s.acc.names.entries[hash]
		switch {
		case underWay:
		case have != nil && have.deleted != nil:
			taken = acceptedName{have.deleted.B3, true}
		case have != nil:
			taken.id = have.ref.ID
		case s.index.names[hash] != (place{}) || s.tailNow(num) != tail:
			done = false
			return wal.Decision{}
		default:
			if r := s.noRoom(l, "payload", b); r != nil {
				return l.answer(r)
			}
			return s.accept(l, lsn, b)
		}
		if replayed = taken.id == p.ref.ID && !taken.deleted; replayed {
			return l.answer(nil)
		}
		return l.answer(payloadConflict(p.name, taken))
	})
	return replayed, done, err
}

// tailNow is the last sealed segment with parts of the run; mu is held.
func (s *Store) tailNow(num uint32) uint32 {
	c, i := s.index.at(num)
	return c.tail[i]
}

func payloadConflict(name string, taken acceptedName) *Refusal {
	if taken.deleted {
		return fieldRefusal(PayloadConflict, name, "the run had a payload %s (%s), which an owner has deleted, and its name is not given again", quote(name), taken.id)
	}
	return fieldRefusal(PayloadConflict, name, "the run has a payload %s with other bytes (%s)", quote(name), taken.id)
}
