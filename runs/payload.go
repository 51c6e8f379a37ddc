package runs

import (
	"bytes"
	"slices"
	"time"

	"durafs/cas"
	"durafs/projection"
	"durafs/wal"
)

// sourceNumber is how a source is written in the log.
type sourceNumber uint8

const (
	numNamed sourceNumber = 1 + iota
	numTerminal
	numLogBody
	numResumeRequest
	numToolResult
	numProjection
	sourceCount
)

// sources is the policy of each source of payloads: whether a caller may put
// one, whether it is shown, whether an owner may delete it, whether a copy of the
// run has it too. What is right for
// each is the projection's to say, since those are what refers to most.
var sources = func() (t [sourceCount]struct {
	name                   Source
	put, show, purge, copy bool
},
) {
	for n, name := range map[sourceNumber]Source{
		numNamed: SourceNamed, numTerminal: SourceTerminal, numLogBody: SourceLogBody,
		numResumeRequest: SourceResumeRequest, numToolResult: SourceToolResult, numProjection: SourceProjection,
	} {
		p := projection.PolicyOf(projection.Source(name))
		t[n].name, t[n].put, t[n].show, t[n].purge, t[n].copy = name, p.Put, p.Show, p.Delete, p.Copy
	}
	return t
}()

// Names of the store's own payloads. A caller's never begins with a dot.
const (
	resumeRequestName = ".resume-request"
	rowBodyPrefix     = ".row-" // then 32 digits of the body's id
)

func parseSource(s Source) sourceNumber {
	for n := range sources {
		if n > 0 && sources[n].name == s {
			return sourceNumber(n)
		}
	}
	return 0
}

// pushPayload enters a run's next payload; the zero name and place stand for
// one that is lost.
func (x *index) pushPayload(num uint32, name hash16, at place) {
	r := x.recentOf(num)
	r.payloads = append(r.payloads, namedPlace{name, at})
	if name != (hash16{}) {
		x.names[name] = at
	}
}

func nameHash(num uint32, name string) hash16 { return hashOf(num, []byte("payload"), []byte(name)) }

// found is a payload as it was read from the log.
type found struct {
	payload
	ordinal uint32
	at      time.Time

	// deleted is set where it was deleted, at that time: then there is no more
	// of it than this says.
	deleted *deletion
}

func (f *found) info() PayloadInfo {
	return PayloadInfo{
		Name: f.name, B3: f.ref.ID, Bytes: f.ref.Bytes, ContentType: f.contentType,
		Source: sources[f.source].name, Ordinal: f.ordinal, At: f.at,
	}
}

// readPayload reads the payload entry at p, or that of its deletion.
func (s *Store) readPayload(p place) (*found, error) {
	b, err := s.readBatch(p.pos())
	if err != nil {
		return nil, err
	}
	if int(p.entry) < len(b.entries) && b.entries[p.entry].kind == kindDeleted {
		d, err := parseDeletion(b.entries[p.entry])
		return &found{at: unixTime(b.stamp.at), deleted: d}, err
	}
	if int(p.entry) >= len(b.entries) || b.entries[p.entry].kind != kindPayload {
		return nil, badBatch("it has no payload where the index says")
	}
	e := b.entries[p.entry]
	pl, err := parsePayload(e)
	if err != nil {
		return nil, err
	}
	f := &found{payload: *pl, at: unixTime(b.stamp.at)}
	f.ordinal = b.stamp.runs[b.stamp.find(e.run)].ordinal
	for _, before := range b.entries[:p.entry] {
		if before.kind == kindPayload && before.run == e.run {
			f.ordinal++
		}
	}
	return f, nil
}

// shown reports whether a payload may be shown now: the terminal one only
// when it belongs to the outcome.
func shown(f *found, answered bool, newestTerminal bool) bool {
	if f.source == numTerminal {
		return answered && newestTerminal
	}
	return sources[f.source].show
}

// PayloadList lists what may be shown of a run's payloads, in order of
// ordinal; the terminal payload has the name TerminalName.
func (s *Store) PayloadList(ref Ref) ([]PayloadInfo, error) {
	places, terminal, answered, ok, err := s.payloadPlaces(uint32(ref))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, unknownRef(ref)
	}
	list := make([]PayloadInfo, 0, len(places))
	for n, p := range places {
		if p == (place{}) {
			list = append(list, lostPayload(uint32(n)))
			continue
		}
		if p == deletedPlace {
			continue
		}
		f, err := s.readPayload(p)
		if isDamage(err) {
			s.foundDamage(uint32(ref), err)
			list = append(list, lostPayload(uint32(n)))
			continue
		}
		if err != nil {
			return nil, err
		}
		if shown(f, answered, p == terminal) {
			list = append(list, f.info())
		}
	}
	return list, nil
}

// deletedPlace stands for a payload that was deleted.
var deletedPlace = place{entry: maxUint32}

// payloadPlaces tells where a run's payloads are, by ordinal: the zero place
// for one that is lost.
func (s *Store) payloadPlaces(num uint32) (places []place, terminal place, answered, ok bool, err error) {
	s.mu.RLock()
	c, i := s.index.at(num)
	known, tail := c.phase[i] != PhaseNone, c.tail[i]
	answered = c.flags[i]&flagAnswered != 0
	var recent, gone []namedPlace
	if r := s.index.recent[num]; r != nil {
		recent, gone = slices.Clone(r.payloads), slices.Clone(r.deleted)
	}
	s.mu.RUnlock()
	if !known {
		return nil, place{}, false, false, nil
	}
	sealed, err := s.sealed(num, tail)
	if err != nil {
		return nil, place{}, false, true, err
	}
	deleted := map[hash16]bool{}
	for _, p := range append(slices.Clip(sealed.deleted), gone...) {
		deleted[p.name] = true
	}
	name := nameHash(num, TerminalName)
	for _, p := range append(slices.Clip(sealed.payloads), recent...) {
		if deleted[p.name] {
			p.at = deletedPlace
		}
		places = append(places, p.at)
		if p.name == name {
			terminal = p.at
		}
	}
	return places, terminal, answered, true, nil
}

// findPayload reads a published payload by name, nil if there is none, or none
// any more.
func (s *Store) findPayload(num uint32, name string) (*found, error) {
	f, err := s.findAny(num, name)
	if f != nil && f.deleted != nil {
		return nil, err
	}
	return f, err
}

// findAny is findPayload that finds deleted ones too.
func (s *Store) findAny(num uint32, name string) (*found, error) {
	hash := nameHash(num, name)
	at, _, err := s.findName(num, hash)
	if err != nil || at == (place{}) {
		return nil, err
	}
	f, err := s.readPayload(at)
	s.foundDamage(num, err)
	return f, err
}

// findName tells where the payload is whose name has this hash, or where it was
// deleted, the zero place for none; tail is up to which segment sealed ones were looked at.
func (s *Store) findName(num uint32, hash hash16) (at place, tail uint32, err error) {
	s.mu.RLock()
	c, i := s.index.at(num)
	at, tail = s.index.names[hash], c.tail[i]
	s.mu.RUnlock()
	if at != (place{}) {
		return at, tail, nil
	}
	sealed, err := s.sealed(num, tail)
	if err != nil {
		return place{}, tail, err
	}
	return sealed.payload(hash), tail, nil
}

// showPayload is findPayload for those who may see what may be shown.
func (s *Store) showPayload(ref Ref, name string) (*found, error) {
	num := uint32(ref)
	s.mu.RLock()
	c, i := s.index.at(num)
	known, answered := c.phase[i] != PhaseNone, c.flags[i]&flagAnswered != 0
	s.mu.RUnlock()
	if !known {
		return nil, unknownRef(ref)
	}
	f, err := s.findAny(num, name)
	switch {
	case err != nil:
		return nil, err
	case f != nil && f.deleted != nil:
		return nil, deletedPayload(f)
	case f == nil || !shown(f, answered, true):
		return nil, unknownPayload(name)
	}
	return f, nil
}

// PayloadInfo finds one payload by name, the terminal one by TerminalName.
func (s *Store) PayloadInfo(ref Ref, name string) (PayloadInfo, error) {
	if info, ok := s.findLost(uint32(ref), name); ok {
		return info, nil
	}
	f, err := s.showPayload(ref, name)
	if err != nil {
		return PayloadInfo{}, err
	}
	return f.info(), nil
}

// PayloadReader reads a payload; every byte was verified. It may be used
// concurrently, and holds nothing that would have to be closed.
type PayloadReader interface {
	ReadAt(p []byte, off int64) (int, error)
	Size() int64
}

// OpenPayload opens one payload for reading. Bytes that are not what was stored
// are a *PayloadError.
func (s *Store) OpenPayload(ref Ref, name string) (PayloadReader, error) {
	if info, ok := s.findLost(uint32(ref), name); ok {
		return nil, &wal.DamageError{File: "payload " + info.Name, Reason: "what it was, and its bytes, cannot be read"}
	}
	f, err := s.showPayload(ref, name)
	if err != nil {
		return nil, err
	}
	r, err := s.openRef(f.ref)
	if err != nil {
		return nil, s.payloadErr(uint32(ref), name, err)
	}
	if f.ref.Inline != nil || f.ref.Bytes == 0 {
		return r, nil
	}
	return &payloadReader{r, s, uint32(ref), name}, nil
}

func (s *Store) openRef(ref cas.Ref) (PayloadReader, error) {
	if ref.Inline != nil || ref.Bytes == 0 {
		return bytes.NewReader(ref.Inline), nil // the frame's checksum verified them
	}
	return s.cas.Open(ref)
}
