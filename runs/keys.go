package runs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"durafs/wal"
)

// The keys section of a segment has its rows that were given with a key, by
// key, which is a hash of run and key. It is left out where there are none.
//
//	head   16 bytes: magic "KEYS", version 4 (0), segment 4, number 4
//	keys   36 bytes each: key 16, body 16, number of the row 4
//
// The filter section says of most keys that are not there that they are not:
// a filter of blocks of 256 bits, filterKeys keys to a block on average. A
// key's block is chosen by its first four bytes, and in each of the block's
// eight words of 32 bits one bit by the next four.
//
//	head    16 bytes: magic "FILT", version 4 (0), segment 4, number of blocks 4
//	blocks  32 bytes each
const (
	keysHeadBytes    = 16
	keyPartBytes     = 36
	filterHeadBytes  = 16
	filterBlockBytes = 32
	filterKeys       = 24
)

var (
	keysMagic   = [4]byte{'K', 'E', 'Y', 'S'}
	filterMagic = [4]byte{'F', 'I', 'L', 'T'}
)

type keyPart struct {
	key, body hash16
	seq       uint32
}

// filterWords are odd numbers, chosen once, that spread a key's bits.
var filterWords = [8]uint32{0x9e3779b1, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f, 0x165667b1, 0xd3a2646d, 0xfd7046c5, 0xb55a4f09}

func filterBlock(k hash16, blocks uint32) uint32 {
	return uint32(uint64(binary.LittleEndian.Uint32(k[:])) * uint64(blocks) >> 32)
}

func filterBit(k hash16, word int) uint32 {
	return 1 << (binary.LittleEndian.Uint32(k[4:]) * filterWords[word] >> 27)
}

// writeKeys writes both sections; d.keys are sorted.
func (d *derived) writeKeys(w sectionWriter) error {
	if len(d.keys) == 0 {
		return nil
	}
	w.Begin(sectionKeys)
	le := binary.LittleEndian
	b := le.AppendUint32(append(keysMagic[:], 0, 0, 0, 0), d.seg)
	b = le.AppendUint32(b, uint32(len(d.keys)))
	for i := range d.keys {
		k := &d.keys[i]
		b = le.AppendUint32(append(append(b, k.key[:]...), k.body[:]...), k.seq)
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	w.Begin(sectionFilter)
	blocks := uint32(len(d.keys)+filterKeys-1) / filterKeys
	b = le.AppendUint32(append(filterMagic[:], 0, 0, 0, 0), d.seg)
	b = le.AppendUint32(b, blocks)
	b = append(b, make([]byte, int(blocks)*filterBlockBytes)...)
	for i := range d.keys {
		k := d.keys[i].key
		block := b[filterHeadBytes+int(filterBlock(k, blocks))*filterBlockBytes:]
		for word := range filterWords {
			le.PutUint32(block[4*word:], le.Uint32(block[4*word:])|filterBit(k, word))
		}
	}
	_, err := w.Write(b)
	return err
}

var errKeys = errors.New("runs: the keys of a segment are not well formed")

func badKeys(what string) error { return fmt.Errorf("%w: %s", errKeys, what) }

// keyReader looks for keys in a segment.
type keyReader struct {
	keys, filter  io.ReaderAt
	count, blocks uint32
}

func openKeys(sections wal.Sections, seg uint32) (*keyReader, error) {
	keys, ok := sections.Section(sectionKeys)
	filter, also := sections.Section(sectionFilter)
	if !ok || !also {
		return nil, badKeys("they are not there")
	}
	k := &keyReader{keys: keys, filter: filter}
	var err error
	if k.count, err = countOf(keys, keysMagic, seg, keyPartBytes); err != nil {
		return nil, err
	}
	if k.blocks, err = countOf(filter, filterMagic, seg, filterBlockBytes); err == nil && k.blocks == 0 {
		err = badKeys("their filter is empty")
	}
	return k, err
}

// countOf reads and checks a head.
func countOf(r *io.SectionReader, magic [4]byte, seg uint32, each int64) (uint32, error) {
	var b [keysHeadBytes]byte
	if err := readAll(r, b[:], 0); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	n := le.Uint32(b[12:])
	if [4]byte(b[:4]) != magic || le.Uint32(b[4:]) != 0 || le.Uint32(b[8:]) != seg || r.Size() != keysHeadBytes+int64(n)*each {
		return 0, badKeys("a head makes no sense")
	}
	return n, nil
}

// find looks for a key.
func (k *keyReader) find(key hash16) (keyedRow, bool, error) {
	maybe, err := k.maybe(key)
	if err != nil || !maybe {
		return keyedRow{}, false, err
	}
	var failed error
	var b [keyPartBytes]byte
	i := sort.Search(int(k.count), func(i int) bool {
		if failed == nil {
			failed = readAll(k.keys, b[:16], keysHeadBytes+int64(i)*keyPartBytes)
		}
		return bytes.Compare(b[:16], key[:]) >= 0
	})
	if failed != nil || i == int(k.count) {
		return keyedRow{}, false, failed
	}
	if err := readAll(k.keys, b[:], keysHeadBytes+int64(i)*keyPartBytes); err != nil {
		return keyedRow{}, false, err
	}
	row := keyedRow{body: hash16(b[16:32]), seq: binary.LittleEndian.Uint32(b[32:])}
	return row, hash16(b[:16]) == key, nil
}

// maybe asks the filter.
func (k *keyReader) maybe(key hash16) (bool, error) {
	var b [filterBlockBytes]byte
	if err := readAll(k.filter, b[:], filterHeadBytes+int64(filterBlock(key, k.blocks))*filterBlockBytes); err != nil {
		return false, err
	}
	for word := range filterWords {
		if binary.LittleEndian.Uint32(b[4*word:])&filterBit(key, word) == 0 {
			return false, nil
		}
	}
	return true, nil
}
