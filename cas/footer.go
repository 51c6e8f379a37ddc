package cas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"durafs/internal/mutant"
)

const (
	footerEntryBytes   = 40
	footerTrailerBytes = 64
	footerMagic        = "durafoot"
)

// entry tells where a record lies in its pack.
type entry struct {
	ID     ID
	Offset uint32
	End    uint32
}

func compareEntries(a, b entry) int {
	if c := bytes.Compare(a.ID[:], b.ID[:]); c != 0 {
		return c
	}
	return int(int64(a.Offset) - int64(b.Offset))
}

// trailer ends a sealed pack. Before it stand the entries of all records,
// sorted by id and offset: id (32), offset (4), end (4). Where entries or
// trailer are missing or wrong the records are walked instead; they are only
// quicker.
//
//	0   8  magic "durafoot"
//	8   4  format version, 0
//	12  4  flags, 0
//	16  4  seq
//	20  4  number of entries
//	24  8  nonce
//	32  4  offset of the first entry: the end of the records
//	36  4  CRC-32C of the entries
//	40 20  0
//	60  4  CRC-32C of nonce, the trailer's own offset, and all before
type trailer struct {
	Seq     uint32
	Count   uint32
	Nonce   uint64
	Entries uint32
	CRC     uint32
}

func (t trailer) end() int64 { return int64(t.Entries) + int64(t.Count)*footerEntryBytes }

func (t trailer) marshal() []byte {
	b := make([]byte, footerTrailerBytes)
	copy(b, footerMagic)
	binary.LittleEndian.PutUint32(b[16:], t.Seq)
	binary.LittleEndian.PutUint32(b[20:], t.Count)
	binary.LittleEndian.PutUint64(b[24:], t.Nonce)
	binary.LittleEndian.PutUint32(b[32:], t.Entries)
	binary.LittleEndian.PutUint32(b[36:], t.CRC)
	binary.LittleEndian.PutUint32(b[60:], keyedChecksum(b[:60], t.Nonce, t.end()))
	return b
}

// parseTrailer is the inverse of marshal, for a trailer at off.
func parseTrailer(b []byte, off int64) (trailer, error) {
	var t trailer
	if len(b) != footerTrailerBytes || string(b[:8]) != footerMagic {
		return t, errors.New("no trailer")
	}
	t.Seq = binary.LittleEndian.Uint32(b[16:])
	t.Count = binary.LittleEndian.Uint32(b[20:])
	t.Nonce = binary.LittleEndian.Uint64(b[24:])
	t.Entries = binary.LittleEndian.Uint32(b[32:])
	t.CRC = binary.LittleEndian.Uint32(b[36:])
	switch {
	case mutant.On(mutant.FooterTrusted):
	case binary.LittleEndian.Uint32(b[60:]) != keyedChecksum(b[:60], t.Nonce, off):
		return t, errors.New("trailer's checksum is wrong")
	case binary.LittleEndian.Uint32(b[8:]) != formatVersion || !allZero(b[12:16]):
		return t, fmt.Errorf("%w: trailer of version %d", ErrFormat, b[8])
	case !allZero(b[40:60]):
		return t, errors.New("trailer's reserved bytes are not zero")
	case t.end() != off || t.Entries < packHeaderBytes || t.Entries%recordAlign != 0:
		return t, errors.New("trailer's lengths are wrong")
	}
	return t, nil
}

// marshalFooter encodes the footer of a pack whose records end at end. It
// sorts entries.
func marshalFooter(p Pack, end int64, entries []entry) []byte {
	slices.SortFunc(entries, compareEntries)
	b := make([]byte, 0, len(entries)*footerEntryBytes+footerTrailerBytes)
	for _, e := range entries {
		b = append(b, e.ID[:]...)
		b = binary.LittleEndian.AppendUint32(b, e.Offset)
		b = binary.LittleEndian.AppendUint32(b, e.End)
	}
	t := trailer{Seq: p.Seq, Count: uint32(len(entries)), Nonce: p.Nonce, Entries: uint32(end), CRC: checksum(b)}
	return append(b, t.marshal()...)
}

// checkFooter reads a footer back before it is written.
func checkFooter(foot []byte, end int64) error {
	at := len(foot) - footerTrailerBytes
	t, err := parseTrailer(foot[at:], end+int64(at))
	if err == nil {
		_, err = parseEntries(foot[:at], t)
	}
	if err != nil {
		return fmt.Errorf("cas: a footer is wrong before it is written: %w", err)
	}
	return nil
}

func parseEntry(b []byte) entry {
	return entry{
		ID:     ID(b[:32]),
		Offset: binary.LittleEndian.Uint32(b[32:]),
		End:    binary.LittleEndian.Uint32(b[36:]),
	}
}

// parseEntries is the inverse of what marshalFooter writes before the trailer.
func parseEntries(b []byte, t trailer) ([]entry, error) {
	if int64(len(b)) != int64(t.Count)*footerEntryBytes || checksum(b) != t.CRC && !mutant.On(mutant.FooterTrusted) {
		return nil, errors.New("footer's checksum is wrong")
	}
	entries := make([]entry, t.Count)
	for i := range entries {
		entries[i] = parseEntry(b[i*footerEntryBytes:])
		if e := entries[i]; e.Offset < packHeaderBytes || e.End <= e.Offset || e.End > t.Entries {
			return nil, errors.New("footer names a record out of bounds")
		}
		if i > 0 && compareEntries(entries[i-1], entries[i]) >= 0 {
			return nil, errors.New("footer is not sorted")
		}
	}
	return entries, nil
}
