package wal

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"durafs/internal/vfs"
	"durafs/segment"
)

// Derived is what the owner of the batches works out of a sealed segment and
// keeps in its footer, so that an open needs to read footers only, and so that
// what is looked up later is found without an index in memory. The log carries
// these sections and does not look into them.
//
// All of it is derived: where a footer is missing or wrong, the batches are
// walked instead, and must come to the same.
type Derived interface {
	// Derive writes the sections of a segment that will be sealed. Segments
	// come in the order of their ids, none is left out, and after an error none
	// follows. It is called by the sealer, or by Close.
	Derive(seg uint32, batches Batches, w *FooterWriter) error
	// Sealed says that the segment is sealed: from here on its sections can be
	// read.
	Sealed(seg uint32)

	// Covers tells, at open, from which segment on (up to the footer's own) the
	// footer can stand for what was derived; 0 if it cannot at all.
	Covers(seg uint32, sections Sections) (from uint32)
	// Load enters what the footer says of all the segments that it covers. An
	// error means that it could not be read: all is begun anew without it.
	Load(seg uint32, sections Sections) error
	// Walk does the same from the batches of a sealed segment without a footer
	// that can be used.
	Walk(seg uint32, batches Batches) error
	// Forget undoes every Load and Walk.
	Forget()

	// LeftOut lists, after the last Load and Walk, the segments of which some
	// batches were left out, since they are of runs that have lost others: what
	// these make depends on all that came before, and is no matter for a footer.
	LeftOut() []uint32
	// ReplayLeftOut enters what was left out of a segment. Of is true for the runs that
	// it is of; each is called for all batches of the segment, and in between
	// Options.Damaged is told of those of these runs that are lost.
	ReplayLeftOut(seg uint32) (of func(run uint64) bool, each func(Frame) error)

	// Numbers tells the highest numbers given so far; the log keeps them so
	// that none is given again.
	Numbers() Numbers
}

// Batches calls each for every batch of a segment, in order, and lost in the
// place of one whose payload has rotted, which names the run that it is of. A
// frame's payload is the callee's until it returns. It may be called again.
type Batches func(each func(Frame) error, lost func(*DamageError) error) error

// Sections are those of one footer.
type Sections interface {
	// Section finds the section of a kind. Its ReadAt verifies all that it
	// returns; what does not check is a *DamageError.
	Section(kind uint32) (*io.SectionReader, bool)
}

// footerStepBytes is how much of a footer is written at a time.
const footerStepBytes = 64 * segment.PageBytes

// FooterWriter writes the sections of a footer, one after the other. An error
// stays, and every further call returns it.
type FooterWriter struct {
	f    vfs.File
	key  segment.Key
	pace func() error // called after each step

	end      int64  // of the frames
	off      int64  // of buf in the file
	buf      []byte // pages; the last may be unfinished
	fill     int    // content bytes in the unfinished page, 0: there is none
	sections []segment.Section
	err      error
}

// newFooterWriter begins behind the frames, which end at end.
func newFooterWriter(f vfs.File, key segment.Key, end int64, pace func() error) *FooterWriter {
	w := &FooterWriter{f: f, key: key, pace: pace, end: end, buf: make([]byte, 0, footerStepBytes+segment.PageBytes)}
	w.Restart()
	return w
}

// Restart takes back all sections. It returns false where the file could not be
// written, which no further try will change.
func (w *FooterWriter) Restart() bool {
	w.off, w.fill, w.sections = w.end, 0, nil
	w.buf = append(w.buf[:0], zeros[:segment.SectionsOffset(w.end)-w.end]...)
	w.flush() // so that buf begins on a page
	return w.err == nil
}

// Begin ends the section before and begins one of this kind.
func (w *FooterWriter) Begin(kind uint32) {
	w.endPage()
	w.sections = append(w.sections, segment.Section{Kind: kind, Offset: w.off + int64(len(w.buf))})
}

// Write appends to the section.
func (w *FooterWriter) Write(p []byte) (int, error) {
	written := len(p)
	w.sections[len(w.sections)-1].Bytes += int64(len(p))
	for len(p) > 0 && w.err == nil {
		n := min(len(p), segment.PageContentBytes-w.fill)
		w.buf = append(w.buf, p[:n]...)
		p = p[n:]
		if w.fill += n; w.fill == segment.PageContentBytes {
			w.endPage()
		}
	}
	if w.err != nil {
		return 0, w.err
	}
	return written, nil
}

// endPage pads and seals the unfinished page.
func (w *FooterWriter) endPage() {
	if w.fill == 0 {
		return
	}
	w.buf = append(w.buf, zeros[:segment.PageBytes-w.fill]...)
	w.fill = 0
	at := len(w.buf) - segment.PageBytes
	segment.SealPage(w.buf[at:], w.key, w.off+int64(at))
	s := &w.sections[len(w.sections)-1]
	s.CRC = segment.ExtendChecksum(s.CRC, w.buf[at:])
	if len(w.buf) >= footerStepBytes {
		w.flush()
	}
}

func (w *FooterWriter) flush() {
	if w.err != nil || len(w.buf) == 0 {
		return
	}
	n, err := w.f.WriteAt(w.buf, w.off)
	if err == nil {
		err = shortWrite(n, len(w.buf))
	}
	if err == nil {
		err = w.f.WriteBehind(w.off, int64(len(w.buf)))
	}
	if err == nil && w.pace != nil {
		err = w.pace()
	}
	w.err = err
	w.off += int64(len(w.buf))
	w.buf = w.buf[:0]
}

// finish writes the footer block, and gives the file the size that it says.
func (w *FooterWriter) finish(f segment.Footer) (segment.Footer, error) {
	w.endPage()
	f.Sections = w.sections
	f.Size = w.off + int64(len(w.buf)) + segment.FooterBytes
	if w.err == nil {
		w.buf = append(w.buf, f.Marshal()...)
		w.flush()
	}
	if w.err != nil {
		return f, w.err
	}
	return f, w.f.Truncate(f.Size)
}

// footerReader reads the sections of a segment.
type footerReader struct {
	files *files
	seg   *segFile
	foot  *segment.Footer
}

// Sections of a sealed segment; false where it has no footer that could be
// read.
func (l *Log) Sections(seg uint32) (Sections, bool) {
	s, _ := l.files.find(seg)
	if s == nil {
		return nil, false
	}
	foot := s.footer.Load()
	return footerReader{l.files, s, foot}, foot != nil
}

func (r footerReader) Section(kind uint32) (*io.SectionReader, bool) {
	s, ok := r.foot.Section(kind)
	if !ok {
		return nil, false
	}
	return io.NewSectionReader(sectionReader{r.files, r.seg, s}, 0, s.Bytes), true
}

// sectionReader reads a section's content.
type sectionReader struct {
	files *files
	seg   *segFile
	s     segment.Section
}

// pageBuffers hold pages on their way.
var pageBuffers = sync.Pool{New: func() any {
	b := make([]byte, footerStepBytes)
	return &b
}}

func (r sectionReader) ReadAt(p []byte, off int64) (n int, err error) {
	f, err := r.files.acquire(r.seg)
	if errors.Is(err, ErrClosed) {
		return 0, err
	}
	if err != nil {
		return 0, damageAt(r.seg.name, r.s.Offset, 0, 0, err)
	}
	defer r.files.release(r.seg)
	buf := pageBuffers.Get().(*[]byte)
	defer pageBuffers.Put(buf)
	for n < len(p) {
		if off >= r.s.Bytes {
			return n, io.EOF
		}
		got, err := r.pages(f, *buf, p[n:min(int64(len(p)), int64(n)+r.s.Bytes-off)], off)
		if err != nil {
			return n, err
		}
		n, off = n+got, off+int64(got)
	}
	return n, nil
}

// pages reads some of p, as many pages as buf holds.
func (r sectionReader) pages(f io.ReaderAt, buf, p []byte, off int64) (n int, err error) {
	first := off / segment.PageContentBytes
	skip := int(off % segment.PageContentBytes)
	count := (skip + len(p) + segment.PageContentBytes - 1) / segment.PageContentBytes
	buf = buf[:min(len(buf), count*segment.PageBytes)]
	at := r.s.Offset + first*segment.PageBytes
	if err := readFull(f, buf, at); err != nil {
		return 0, damageAt(r.seg.name, at, 0, 0, err)
	}
	for i := 0; i < len(buf); i += segment.PageBytes {
		content, err := segment.CheckPage(buf[i:], r.seg.key, at+int64(i))
		if err != nil {
			return 0, damageAt(r.seg.name, at+int64(i), 0, 0, err)
		}
		n += copy(p[n:], content[skip:])
		skip = 0
	}
	return n, nil
}

// readFooter reads and checks the footer block of a sealed segment. What it
// says has to be what the manifest says.
func readFooter(f vfs.File, e segEntry, storeID [16]byte) (*segment.Footer, error) {
	foot, err := lastBlock(f, storeID)
	if err != nil {
		return nil, err
	}
	if foot.ID != e.ID || foot.Salt != e.Salt || foot.End != e.End || foot.Last != e.Last || foot.Size != e.Bytes {
		return nil, &segment.InvalidError{Offset: e.Bytes - segment.FooterBytes, Reason: fmt.Sprintf("the footer is of segment %d, or of another state of it", foot.ID)}
	}
	return foot, nil
}

// lastBlock reads the footer block at the end of a file.
func lastBlock(f vfs.File, storeID [16]byte) (*segment.Footer, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	at := size - segment.FooterBytes
	if at < segment.HeaderBytes || at%segment.PageBytes != 0 {
		return nil, &segment.InvalidError{Offset: size, Reason: "the file does not end with a footer"}
	}
	b := make([]byte, segment.FooterBytes)
	if err := readFull(f, b, at); err != nil {
		return nil, err
	}
	foot, err := segment.ParseFooter(b)
	var invalid *segment.InvalidError
	switch {
	case errors.As(err, &invalid):
		return nil, &segment.InvalidError{Offset: at, Reason: invalid.Reason}
	case err != nil:
		return nil, err
	case foot.StoreID != storeID:
		return nil, errOtherStore
	case foot.Size != size:
		return nil, &segment.InvalidError{Offset: at, Reason: "the footer tells of a file of another size"}
	}
	return &foot, nil
}
