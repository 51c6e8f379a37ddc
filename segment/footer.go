package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	// FooterBytes is the size of the footer block, the last of a sealed file.
	FooterBytes = 4096
	// SectionsMax bounds Footer.Sections.
	SectionsMax = 64

	sectionEntryBytes = 24
	footerReplaces    = 104
	footerSections    = footerReplaces + 4*ReplacesMax
	footerCRC         = FooterBytes - 4
)

// Footer is what the last block of a sealed file says: all that the header
// says, so that a damaged one can be rebuilt, where the frames end, and which
// sections stand between them and this block.
type Footer struct {
	Header
	// End is where the frames end, and First and Last are the LSNs of the
	// first and the last batch among them: First is Last+1 without any.
	End         int64
	First, Last uint64
	// Size is that of the whole file.
	Size     int64
	Sections []Section
}

// Section is an entry of a footer's table. What a kind means is the owner's;
// one that is not known is passed over.
type Section struct {
	Kind uint32
	// CRC is the checksum of the section's pages as they are stored.
	CRC    uint32
	Offset int64
	// Bytes is the length of the content, without what the pages add.
	Bytes int64
}

// StoredBytes is what the section takes in the file.
func (s Section) StoredBytes() int64 { return SectionBytes(s.Bytes) }

var footerMagic = [8]byte{'d', 'u', 'r', 'a', 'f', 's', '\n', '\r'}

// SectionsOffset is where the first section of a file begins whose frames end
// at end.
func SectionsOffset(end int64) int64 { return (end + PageBytes - 1) &^ (PageBytes - 1) }

// Section finds the section of a kind.
func (f *Footer) Section(kind uint32) (Section, bool) {
	for _, s := range f.Sections {
		if s.Kind == kind {
			return s, true
		}
	}
	return Section{}, false
}

// Marshal is the footer block. ParseFooter is its inverse. It panics where a
// bound is broken.
func (f *Footer) Marshal() []byte {
	if len(f.Sections) > SectionsMax || len(f.Replaces) > ReplacesMax {
		panic("segment: too many sections, or replaced segments, for one footer")
	}
	b := make([]byte, FooterBytes)
	le := binary.LittleEndian
	copy(b, footerMagic[:])
	le.PutUint32(b[8:], Version)
	b[12] = byte(f.Kind)
	le.PutUint32(b[20:], f.ID)
	copy(b[24:40], f.StoreID[:])
	le.PutUint64(b[40:], f.Salt)
	le.PutUint32(b[48:], f.Generation)
	le.PutUint32(b[52:], f.Lane)
	le.PutUint64(b[56:], f.LaneEpoch)
	le.PutUint64(b[64:], uint64(f.End))
	le.PutUint64(b[72:], f.First)
	le.PutUint64(b[80:], f.Last)
	le.PutUint64(b[88:], uint64(f.Size))
	le.PutUint32(b[96:], uint32(len(f.Replaces)))
	le.PutUint32(b[100:], uint32(len(f.Sections)))
	for i, id := range f.Replaces {
		le.PutUint32(b[footerReplaces+4*i:], id)
	}
	for i, s := range f.Sections {
		e := b[footerSections+sectionEntryBytes*i:]
		le.PutUint32(e, s.Kind)
		le.PutUint32(e[4:], s.CRC)
		le.PutUint64(e[8:], uint64(s.Offset))
		le.PutUint64(e[16:], uint64(s.Bytes))
	}
	le.PutUint32(b[footerCRC:], Checksum(b[:footerCRC]))
	return b
}

// ParseFooter reads a footer block, with the errors of ParseHeader. What it
// takes marshals to the same bytes again.
func ParseFooter(b []byte) (Footer, error) {
	if len(b) < FooterBytes {
		return Footer{}, invalidFooter("shorter than the footer block")
	}
	b = b[:FooterBytes]
	le := binary.LittleEndian
	if !bytes.Equal(b[:8], footerMagic[:]) {
		return Footer{}, invalidFooter("magic is not there")
	}
	if le.Uint32(b[footerCRC:]) != Checksum(b[:footerCRC]) {
		return Footer{}, invalidFooter("footer checksum is wrong")
	}
	if v := le.Uint32(b[8:]); v > Version {
		return Footer{}, &FutureVersionError{Version: v}
	}
	if flags := le.Uint32(b[16:]); flags != 0 {
		return Footer{}, fmt.Errorf("%w: %#x in a footer", ErrUnknownFlag, flags)
	}
	f := Footer{
		Header: Header{
			Kind:       FileKind(b[12]),
			ID:         le.Uint32(b[20:]),
			StoreID:    [16]byte(b[24:40]),
			Salt:       le.Uint64(b[40:]),
			Generation: le.Uint32(b[48:]),
			Lane:       le.Uint32(b[52:]),
			LaneEpoch:  le.Uint64(b[56:]),
		},
		End:   int64(le.Uint64(b[64:])),
		First: le.Uint64(b[72:]),
		Last:  le.Uint64(b[80:]),
		Size:  int64(le.Uint64(b[88:])),
	}
	if f.Kind != LogFile {
		return Footer{}, fmt.Errorf("%w: footer of a file of kind %d", ErrUnknownFlag, f.Kind)
	}
	return f, f.parseTables(b)
}

func (f *Footer) parseTables(b []byte) error {
	le := binary.LittleEndian
	replaces, sections := le.Uint32(b[96:]), le.Uint32(b[100:])
	if replaces > ReplacesMax || sections > SectionsMax {
		return invalidFooter("names more segments or sections than a footer holds")
	}
	for i := range replaces {
		f.Replaces = append(f.Replaces, le.Uint32(b[footerReplaces+4*i:]))
	}
	for i := range sections {
		e := b[footerSections+sectionEntryBytes*i:]
		f.Sections = append(f.Sections, Section{
			Kind: le.Uint32(e), CRC: le.Uint32(e[4:]), Offset: int64(le.Uint64(e[8:])), Bytes: int64(le.Uint64(e[16:])),
		})
	}
	if !allZero(b[13:16]) || !allZero(b[footerReplaces+4*replaces:footerSections]) ||
		!allZero(b[footerSections+sectionEntryBytes*sections:footerCRC]) {
		return invalidFooter("reserved bytes are not zero")
	}
	return f.check()
}

// check holds that frames, sections and footer block fill the file, in this
// order, without a gap but to the next page.
func (f *Footer) check() error {
	const sizeMax = 1 << 60
	if f.End < HeaderBytes || f.End > sizeMax || f.First > f.Last+1 || f.First == 0 {
		return invalidFooter("the frames that it tells of make no sense")
	}
	at := SectionsOffset(f.End)
	for _, s := range f.Sections {
		if s.Offset != at || s.Bytes < 0 || s.Bytes > sizeMax {
			return invalidFooter("a section is not where it should be")
		}
		at += s.StoredBytes()
	}
	if f.Size != at+FooterBytes {
		return invalidFooter("the file's size is another one")
	}
	return nil
}

func invalidFooter(reason string) error { return &InvalidError{Reason: reason} }

// A section is stored in pages, so that any part of it can be read, and what
// was read is checked, without the rest.
const (
	// PageBytes is the size of a page; pages begin at multiples of it.
	PageBytes = 4096
	// PageContentBytes is what a page holds; its checksum follows.
	PageContentBytes = PageBytes - 4
)

// SectionBytes is what a section of n bytes takes in the file.
func SectionBytes(n int64) int64 {
	return (n + PageContentBytes - 1) / PageContentBytes * PageBytes
}

// SealPage sets the checksum of the page p, which will stand at off of the
// file with key k.
func SealPage(p []byte, k Key, off int64) {
	binary.LittleEndian.PutUint32(p[PageContentBytes:PageBytes], k.page(off, p))
}

// CheckPage checks the page p, which stands at off of the file with key k, and
// returns its content. The error is *InvalidError.
func CheckPage(p []byte, k Key, off int64) ([]byte, error) {
	if len(p) < PageBytes {
		return nil, &InvalidError{off, "shorter than a page"}
	}
	if binary.LittleEndian.Uint32(p[PageContentBytes:]) != k.page(off, p) {
		return nil, &InvalidError{off, "page checksum is wrong"}
	}
	return p[:PageContentBytes:PageContentBytes], nil
}

func (k Key) page(off int64, p []byte) uint32 {
	return ExtendChecksum(extendUint64(k.crc, uint64(off)), p[:PageContentBytes])
}
