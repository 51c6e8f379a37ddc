package runs

import "durafs/cas"

// Names tells which runs a batch says the ids of, by their numbers: those that
// it admits, and those of which it has a record. It is for whoever checks a log
// without opening it.
func Names(payload []byte) (map[uint32]string, error) {
	b, err := decodeBatch(payload)
	if err != nil {
		return nil, err
	}
	names := map[uint32]string{}
	for _, e := range b.entries {
		switch e.kind {
		case kindAdmission:
			a, err := parseAdmission(e)
			if err != nil {
				return nil, err
			}
			names[e.run] = a.id
		case kindRecord:
			rec, err := parseRecord(e, unixTime(b.stamp.at))
			if err != nil {
				return nil, err
			}
			names[e.run] = rec.ID
		}
	}
	return names, nil
}

// Deletion says that a run's payload is there no more, for good. It had bytes of
// its own in the chunk store if it was not inline.
type Deletion struct {
	Run    uint32
	Name   string
	ID     cas.ID
	Inline bool
}

// Deletions lists the payloads that a batch deletes. payload is that of the
// batch's frame. What refers to them, in earlier batches, does so for nobody.
func Deletions(payload []byte) ([]Deletion, error) {
	b, err := decodeBatch(payload)
	if err != nil {
		return nil, err
	}
	var gone []Deletion
	for _, e := range b.entries {
		if e.kind != kindDeleted {
			continue
		}
		d, err := parseDeletion(e)
		if err != nil {
			return nil, err
		}
		gone = append(gone, Deletion{e.run, d.Name, d.B3, d.Bytes <= cas.InlineBytesMax})
	}
	return gone, nil
}

// Reference is a payload that a batch refers to, of which run, and its name
// there.
type Reference struct {
	cas.Ref
	Run  uint32
	Name string
}

// References lists the payloads that a batch refers to and that are not inline
// in it. payload is that of the batch's frame. It is for whoever checks a log
// without opening it.
func References(payload []byte) ([]Reference, error) {
	b, err := decodeBatch(payload)
	if err != nil {
		return nil, err
	}
	var refs []Reference
	for _, e := range b.entries {
		if e.kind != kindPayload {
			continue
		}
		p, err := parsePayload(e)
		if err != nil {
			return nil, err
		}
		if e.flags&payloadInline == 0 && p.ref.Bytes > 0 {
			refs = append(refs, Reference{p.ref, e.run, p.name})
		}
	}
	return refs, nil
}
