package wal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// segState is how far a segment is in its life. It only goes up.
type segState uint8

const (
	// segLive: frames may be written to it; its file has its full size.
	segLive segState = iota
	// segEnded: it ends at End with the batch Last; behind End lies nothing
	// that counts. The file may be longer.
	segEnded
	// segSealed: the file has exactly Bytes bytes, whose BLAKE3 is B3; zeros if
	// some of it could not be read when it was sealed.
	segSealed
)

// segEntry is what the manifest says of a segment.
type segEntry struct {
	ID         uint32
	Generation uint32
	Salt       uint64
	Size       int64 // of the file while it is live
	State      segState
	End        int64
	Last       uint64
	// Bytes is the size of the sealed file, its footer included; before that 0.
	Bytes int64
	B3    [32]byte
}

// Pack is what the manifest says of a pack of the chunk store.
type Pack struct {
	// Seq numbers packs; a number is never used again.
	Seq   uint32
	Nonce uint64
	// Sealed packs will not change; Bytes and B3 are their size and BLAKE3.
	Sealed bool
	Bytes  int64
	B3     [32]byte
}

// HighWater holds the highest numbers ever given. None is used again.
type HighWater struct {
	Segment uint32
	Pack    uint32
	// LSN is the highest that was known durable when the manifest was last
	// written.
	LSN uint64
	// Dropped is the LSN up to which batches were dropped: the log begins
	// behind it.
	Dropped uint64
	Numbers
}

// Numbers are those that the owner of the batches gives to runs, threads and
// targets.
type Numbers struct{ Run, Thread, Target uint32 }

func (n Numbers) max(m Numbers) Numbers {
	return Numbers{max(n.Run, m.Run), max(n.Thread, m.Thread), max(n.Target, m.Target)}
}

// manifestState is what the edits of a manifest add up to.
type manifestState struct {
	segments map[uint32]segEntry
	packs    map[uint32]Pack
	high     HighWater
}

func newManifestState() manifestState {
	return manifestState{segments: map[uint32]segEntry{}, packs: map[uint32]Pack{}}
}

func (s *manifestState) clone() manifestState {
	return manifestState{maps.Clone(s.segments), maps.Clone(s.packs), s.high}
}

func (s *manifestState) sortedSegments() []segEntry {
	return slices.SortedFunc(maps.Values(s.segments), func(a, b segEntry) int { return cmp.Compare(a.ID, b.ID) })
}

func (s *manifestState) sortedPacks() []Pack {
	return slices.SortedFunc(maps.Values(s.packs), func(a, b Pack) int { return cmp.Compare(a.Seq, b.Seq) })
}

// An edit changes a manifest. On disk it is a byte that tells its kind,
// followed by fields of fixed size, little-endian:
//
//	1  begin         a snapshot of n frames begins: forget everything; n 4
//	2  set segment   id 4, generation 4, salt 8, size 8, state 1, end 8, last 8, bytes 8, BLAKE3 32
//	3  drop segment  id 4
//	4  set pack      seq 4, nonce 8, sealed 1, bytes 8, BLAKE3 32
//	5  drop pack     seq 4
//	6  high water    segment 4, pack 4, LSN 8, dropped LSN 8, run 4, thread 4, target 4
type edit interface {
	append(dst []byte) []byte
	apply(s *manifestState) error
}

type (
	beginSnapshot uint32
	setSegment    segEntry
	dropSegment   uint32
	setPack       Pack
	dropPack      uint32
	raiseHigh     HighWater
)

const (
	kindBegin byte = 1 + iota
	kindSetSegment
	kindDropSegment
	kindSetPack
	kindDropPack
	kindHigh
)

// editBytes is the size of each kind of edit, without the kind's byte.
var editBytes = [...]int{
	kindBegin: 4, kindSetSegment: 81, kindDropSegment: 4, kindSetPack: 53, kindDropPack: 4, kindHigh: 36,
}

func (e beginSnapshot) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, kindBegin), uint32(e))
}

func (beginSnapshot) apply(s *manifestState) error {
	*s = newManifestState()
	return nil
}

func (e setSegment) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, kindSetSegment)
	dst = le.AppendUint32(dst, e.ID)
	dst = le.AppendUint32(dst, e.Generation)
	dst = le.AppendUint64(dst, e.Salt)
	dst = le.AppendUint64(dst, uint64(e.Size))
	dst = append(dst, byte(e.State))
	dst = le.AppendUint64(dst, uint64(e.End))
	dst = le.AppendUint64(dst, e.Last)
	dst = le.AppendUint64(dst, uint64(e.Bytes))
	return append(dst, e.B3[:]...)
}

func (e setSegment) apply(s *manifestState) error {
	old, known := s.segments[e.ID]
	switch {
	case known && (old.Salt != e.Salt || old.Size != e.Size || e.State < old.State):
		return fmt.Errorf("segment %d cannot become %+v from %+v", e.ID, e, old)
	case known && old.State > segLive && (old.End != e.End || old.Last != e.Last):
		return fmt.Errorf("segment %d ended already", e.ID)
	case e.State > segSealed || e.Size < 0 || e.End < 0 || e.End > e.Size,
		e.State == segSealed && e.Bytes < e.End, e.State != segSealed && e.Bytes != 0:
		return fmt.Errorf("segment %d: %+v makes no sense", e.ID, e)
	}
	s.segments[e.ID] = segEntry(e)
	s.high.Segment = max(s.high.Segment, e.ID)
	s.high.LSN = max(s.high.LSN, e.Last)
	return nil
}

func (e dropSegment) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, kindDropSegment), uint32(e))
}

func (e dropSegment) apply(s *manifestState) error {
	if _, known := s.segments[uint32(e)]; !known {
		return fmt.Errorf("segment %d is not listed", uint32(e))
	}
	delete(s.segments, uint32(e))
	return nil
}

func (e setPack) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, kindSetPack)
	dst = le.AppendUint32(dst, e.Seq)
	dst = le.AppendUint64(dst, e.Nonce)
	sealed := byte(0)
	if e.Sealed {
		sealed = 1
	}
	dst = append(dst, sealed)
	dst = le.AppendUint64(dst, uint64(e.Bytes))
	return append(dst, e.B3[:]...)
}

func (e setPack) apply(s *manifestState) error {
	if old, known := s.packs[e.Seq]; known && (old.Sealed && old != Pack(e) || old.Nonce != e.Nonce) {
		return fmt.Errorf("pack %d is sealed or another one", e.Seq)
	}
	s.packs[e.Seq] = Pack(e)
	s.high.Pack = max(s.high.Pack, e.Seq)
	return nil
}

func (e dropPack) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, kindDropPack), uint32(e))
}

func (e dropPack) apply(s *manifestState) error {
	if _, known := s.packs[uint32(e)]; !known {
		return fmt.Errorf("pack %d is not listed", uint32(e))
	}
	delete(s.packs, uint32(e))
	return nil
}

func (e raiseHigh) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(append(dst, kindHigh), e.Segment)
	dst = le.AppendUint64(le.AppendUint32(dst, e.Pack), e.LSN)
	dst = le.AppendUint64(dst, e.Dropped)
	dst = le.AppendUint32(dst, e.Run)
	return le.AppendUint32(le.AppendUint32(dst, e.Thread), e.Target)
}

func (e raiseHigh) apply(s *manifestState) error {
	s.high.Segment = max(s.high.Segment, e.Segment)
	s.high.Pack = max(s.high.Pack, e.Pack)
	s.high.LSN = max(s.high.LSN, e.LSN)
	s.high.Dropped = max(s.high.Dropped, e.Dropped)
	s.high.Numbers = s.high.Numbers.max(e.Numbers)
	return nil
}

var errBadEdit = errors.New("wal: not an edit of the manifest")

// errLaterEdit is an edit of a kind, or with a value, that this version does
// not know.
var errLaterEdit = fmt.Errorf("%w: an edit of the manifest", ErrUnknownFlag)

// parseEdits reads edits that were appended one after the other. What it takes
// appends to the same bytes again.
func parseEdits(b []byte) ([]edit, error) {
	var edits []edit
	for len(b) > 0 {
		kind := b[0]
		if kind < kindBegin || int(kind) >= len(editBytes) {
			return nil, errLaterEdit
		}
		if len(b) < 1+editBytes[kind] {
			return nil, errBadEdit
		}
		e, err := parseEdit(kind, b[1:1+editBytes[kind]])
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
		b = b[1+editBytes[kind]:]
	}
	return edits, nil
}

func parseEdit(kind byte, b []byte) (edit, error) {
	le := binary.LittleEndian
	switch kind {
	case kindSetSegment:
		if segState(b[24]) > segSealed {
			return nil, errLaterEdit
		}
		return setSegment{
			ID: le.Uint32(b), Generation: le.Uint32(b[4:]), Salt: le.Uint64(b[8:]), Size: int64(le.Uint64(b[16:])),
			State: segState(b[24]), End: int64(le.Uint64(b[25:])), Last: le.Uint64(b[33:]),
			Bytes: int64(le.Uint64(b[41:])), B3: [32]byte(b[49:81]),
		}, nil
	case kindDropSegment:
		return dropSegment(le.Uint32(b)), nil
	case kindSetPack:
		if b[12] > 1 {
			return nil, errLaterEdit
		}
		return setPack{
			Seq: le.Uint32(b), Nonce: le.Uint64(b[4:]), Sealed: b[12] == 1,
			Bytes: int64(le.Uint64(b[13:])), B3: [32]byte(b[21:53]),
		}, nil
	case kindDropPack:
		return dropPack(le.Uint32(b)), nil
	case kindHigh:
		return raiseHigh{
			Segment: le.Uint32(b), Pack: le.Uint32(b[4:]), LSN: le.Uint64(b[8:]), Dropped: le.Uint64(b[16:]),
			Numbers: Numbers{le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint32(b[32:])},
		}, nil
	}
	return beginSnapshot(le.Uint32(b)), nil
}

// snapshot is the edits that make the state from nothing, without the first,
// which counts the frames.
func (s *manifestState) snapshot() []edit {
	edits := []edit{raiseHigh(s.high)}
	for _, e := range s.sortedSegments() {
		edits = append(edits, setSegment(e))
	}
	for _, p := range s.sortedPacks() {
		edits = append(edits, setPack(p))
	}
	return edits
}
