package cas

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
)

const (
	indexMagic        = "duraindx"
	indexPageBytes    = 4096
	indexEntryBytes   = 16
	indexPageHead     = 8
	indexPageEntries  = 255
	indexPackBytes    = 16
	indexMarkBytes    = 8
	indexRecordsLimit = 1 << 26 // of one file, before anything is allocated for it
)

func compareSlots(a, b slot) int {
	return cmp.Or(cmp.Compare(a.mark, b.mark), cmp.Compare(a.place, b.place))
}

// index is a file that tells for many sealed packs where their records are. It
// is derived from their footers, and made again when it is missing, short or
// wrong. It holds eight bytes of an id: what it finds is looked at, and its
// record has the whole id. All numbers are little-endian.
//
//	0     8  magic "duraindx"
//	8     4  format version, 0
//	12    4  flags, 0
//	16   16  id of the store
//	32    4  number of packs
//	36    4  number of entries
//	40    4  bytes of the filter
//	44    4  CRC-32C of the directory
//	48 4044  0
//	4092  4  CRC-32C of all before
//
// At 4096 stands the directory: per pack seq (4), 0 (4), nonce (8); per page
// the mark of its first entry (8); the Bloom filter. It is read into memory.
// From the next multiple of 4096 on stand the pages, of which a lookup reads
// one: number of entries (4), CRC-32C of the entries (4), 255 entries of mark
// (8), offset / 8 (4), seq (4), sorted; 0 (8). Only the last page has fewer.
type index struct {
	StoreID [16]byte
	Packs   []indexedPack // sorted by seq
	Marks   []uint64
	Filter  bloom

	entries int
	pages   int64 // offset of the first
}

type indexedPack struct {
	Seq   uint32
	Nonce uint64
}

func pagesOf(entries int) int { return (entries + indexPageEntries - 1) / indexPageEntries }

func directoryBytes(packs, entries, filter int) int64 {
	return int64(packs)*indexPackBytes + int64(pagesOf(entries))*indexMarkBytes + int64(filter)
}

func pageAligned(n int64) int64 { return (n + indexPageBytes - 1) &^ (indexPageBytes - 1) }

// marshalIndex makes the file over entries, which it sorts.
func marshalIndex(store [16]byte, packs []indexedPack, entries []slot) []byte {
	slices.SortFunc(entries, compareSlots)
	filter := bloom(make([]byte, bloomBytes(len(entries))))
	var marks []uint64
	for i, e := range entries {
		filter.add(e.mark)
		if i%indexPageEntries == 0 {
			marks = append(marks, e.mark)
		}
	}
	dir := marshalDirectory(packs, marks, filter)

	b := make([]byte, packHeaderBytes, packHeaderBytes+pageAligned(int64(len(dir)))+int64(pagesOf(len(entries)))*indexPageBytes)
	copy(b, indexMagic)
	copy(b[16:], store[:])
	for i, n := range []int{len(packs), len(entries), len(filter)} {
		binary.LittleEndian.PutUint32(b[32+4*i:], uint32(n))
	}
	binary.LittleEndian.PutUint32(b[44:], checksum(dir))
	binary.LittleEndian.PutUint32(b[4092:], checksum(b[:4092]))
	b = append(b, dir...)
	b = append(b, make([]byte, pageAligned(int64(len(b)))-int64(len(b)))...)
	for page := range slices.Chunk(entries, indexPageEntries) {
		b = append(b, marshalPage(page)...)
	}
	return b
}

func marshalDirectory(packs []indexedPack, marks []uint64, filter bloom) []byte {
	b := make([]byte, 0, len(packs)*indexPackBytes+len(marks)*indexMarkBytes+len(filter))
	for _, p := range packs {
		b = binary.LittleEndian.AppendUint32(b, p.Seq)
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, p.Nonce)
	}
	for _, m := range marks {
		b = binary.LittleEndian.AppendUint64(b, m)
	}
	return append(b, filter...)
}

func marshalPage(entries []slot) []byte {
	b := make([]byte, indexPageBytes)
	for i, e := range entries {
		binary.LittleEndian.PutUint64(b[indexPageHead+i*indexEntryBytes:], e.mark)
		binary.LittleEndian.PutUint64(b[indexPageHead+i*indexEntryBytes+8:], e.place)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(entries)))
	binary.LittleEndian.PutUint32(b[4:], checksum(b[indexPageHead:]))
	return b
}

// parsePage is the inverse of marshalPage.
func parsePage(b []byte) ([]slot, error) {
	n := binary.LittleEndian.Uint32(b)
	if len(b) != indexPageBytes || n == 0 || n > indexPageEntries {
		return nil, errors.New("page's length is wrong")
	}
	if binary.LittleEndian.Uint32(b[4:]) != checksum(b[indexPageHead:]) {
		return nil, errors.New("page's checksum is wrong")
	}
	if !allZero(b[indexPageHead+n*indexEntryBytes:]) {
		return nil, errors.New("page's reserved bytes are not zero")
	}
	entries := make([]slot, n)
	for i := range entries {
		e := b[indexPageHead+i*indexEntryBytes:]
		entries[i] = slot{binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint64(e[8:])}
		if i > 0 && compareSlots(entries[i-1], entries[i]) > 0 {
			return nil, errors.New("page is not sorted")
		}
	}
	return entries, nil
}

// readIndex reads header and directory of a file of size bytes.
func readIndex(f io.ReaderAt, size int64) (*index, error) {
	head := make([]byte, packHeaderBytes)
	if n, err := f.ReadAt(head, 0); n < len(head) {
		return nil, fmt.Errorf("index is cut off: %w", err)
	}
	switch {
	case string(head[:8]) != indexMagic:
		return nil, errors.New("no index")
	case binary.LittleEndian.Uint32(head[4092:]) != checksum(head[:4092]):
		return nil, errors.New("index's checksum is wrong")
	case !allZero(head[8:16]):
		return nil, fmt.Errorf("%w: index", ErrFormat)
	case !allZero(head[48:4092]):
		return nil, errors.New("index's reserved bytes are not zero")
	}
	x := &index{StoreID: [16]byte(head[16:32]), entries: int(binary.LittleEndian.Uint32(head[36:]))}
	packs, filter := int(binary.LittleEndian.Uint32(head[32:])), int(binary.LittleEndian.Uint32(head[40:]))
	if x.entries == 0 || x.entries > indexRecordsLimit || packs == 0 || packs > x.entries || filter != bloomBytes(x.entries) {
		return nil, errors.New("index's numbers are wrong")
	}
	n := directoryBytes(packs, x.entries, filter)
	x.pages = pageAligned(packHeaderBytes + n)
	if size != x.pages+int64(pagesOf(x.entries))*indexPageBytes {
		return nil, errors.New("index has another length")
	}
	dir := make([]byte, x.pages-packHeaderBytes)
	if _, err := f.ReadAt(dir, packHeaderBytes); err != nil {
		return nil, err
	}
	if checksum(dir[:n]) != binary.LittleEndian.Uint32(head[44:]) || !allZero(dir[n:]) {
		return nil, errors.New("index's directory is wrong")
	}
	return x, x.parseDirectory(dir[:n], packs)
}

func (x *index) parseDirectory(dir []byte, packs int) error {
	for i := range packs {
		p := dir[i*indexPackBytes:]
		if !allZero(p[4:8]) {
			return errors.New("index's reserved bytes are not zero")
		}
		x.Packs = append(x.Packs, indexedPack{binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint64(p[8:])})
		if i > 0 && x.Packs[i-1].Seq >= x.Packs[i].Seq {
			return errors.New("index's packs are not sorted")
		}
	}
	dir = dir[packs*indexPackBytes:]
	x.Marks = make([]uint64, pagesOf(x.entries))
	for i := range x.Marks {
		x.Marks[i] = binary.LittleEndian.Uint64(dir[i*indexMarkBytes:])
		if i > 0 && x.Marks[i-1] > x.Marks[i] {
			return errors.New("index's pages are not sorted")
		}
	}
	x.Filter = bloom(dir[len(x.Marks)*indexMarkBytes:])
	return nil
}

// places appends where records of a mark may be. The error says that the index
// is of no use any more.
func (x *index) places(f io.ReaderAt, mark uint64, to []uint64) ([]uint64, error) {
	if !x.Filter.has(mark) {
		return to, nil
	}
	// The page before the first that begins at mark may end with it.
	i := max(0, sort.Search(len(x.Marks), func(i int) bool { return x.Marks[i] >= mark })-1)
	for ; i < len(x.Marks) && x.Marks[i] <= mark; i++ {
		b := make([]byte, indexPageBytes)
		if _, err := f.ReadAt(b, x.pages+int64(i)*indexPageBytes); err != nil {
			return to, err
		}
		entries, err := parsePage(b)
		if err != nil {
			return to, err
		}
		for _, e := range entries {
			if e.mark == mark {
				to = append(to, e.place)
			}
		}
	}
	return to, nil
}
