package cas

import (
	"encoding/binary"
	"errors"
	"io"
)

// walkBytes is read at once while walking.
const walkBytes = 1 << 20

// walked is a record that a walk came upon, or a range where there is none.
type walked struct {
	hdr  recordHeader
	off  int64
	end  int64
	body []byte // as stored; valid during the call
	err  error  // what is wrong with it; with an empty hdr: no record here
}

func (w walked) entry() entry { return entry{ID: w.hdr.ID, Offset: uint32(w.off), End: uint32(w.end)} }

// walkPack calls visit for every record of a pack from its header to end, and
// for what is damaged. A header that is not sound loses its record and no
// other: the walk goes on at the next offset where a header checks. It stops
// at the footer of a sealed pack. What cannot be read is taken as zeros, which
// no checksum takes for sound.
func walkPack(f io.ReaderAt, nonce uint64, end int64, visit func(walked)) {
	w := walker{f: f, nonce: nonce, end: end}
	for off := int64(packHeaderBytes); off < end; {
		r := w.record(off)
		if r.hdr.Kind == 0 && w.footerAt(off) {
			return
		}
		visit(r)
		off = r.end
	}
}

// walker reads a pack through a window.
type walker struct {
	f     io.ReaderAt
	nonce uint64
	end   int64

	buf []byte // window
	at  int64  // its offset
}

// window returns n bytes at off, fewer only at the end.
func (w *walker) window(off, n int64) []byte {
	n = min(n, w.end-off)
	if off < w.at || off+n > w.at+int64(len(w.buf)) {
		size := min(walkBytes, w.end-off)
		if int64(cap(w.buf)) < size {
			w.buf = make([]byte, size)
		}
		w.buf, w.at = w.buf[:size], off
		w.fill()
	}
	return w.buf[off-w.at:][:n]
}

// fill reads the window, block by block where that fails.
func (w *walker) fill() {
	const block = 4096
	n, err := w.f.ReadAt(w.buf, w.at)
	if err == nil || errors.Is(err, io.EOF) {
		clear(w.buf[n:])
		return
	}
	for i := 0; i < len(w.buf); {
		end := min(i+block-int((w.at+int64(i))%block), len(w.buf))
		n, err := w.f.ReadAt(w.buf[i:end], w.at+int64(i))
		if err != nil && !errors.Is(err, io.EOF) {
			n = 0
		}
		clear(w.buf[i+n : end])
		i = end
	}
}

// record reads what is at off: a record, or the range up to the next one.
func (w *walker) record(off int64) walked {
	b := w.window(off, recordHeaderBytes+recordBodyMax)
	hdr, err := parseRecordHeader(b, w.nonce, off)
	if err != nil {
		return walked{off: off, end: w.resync(off + recordAlign), err: err}
	}
	r := walked{hdr: hdr, off: off, end: off + hdr.bytes()}
	if r.end > w.end || int64(len(b)) < hdr.bytes() {
		r.end, r.err = w.end, errors.New("the record is cut off")
		return r
	}
	r.body = b[recordHeaderBytes:][:hdr.Stored]
	switch {
	case checksum(r.body) != hdr.CRC:
		r.err = errors.New("the body's checksum is wrong")
	case !allZero(b[recordHeaderBytes+int64(hdr.Stored) : hdr.bytes()]):
		r.err = errors.New("the bytes behind the body are not zero")
	}
	return r
}

// resync finds the next offset from off where a record's header checks.
func (w *walker) resync(off int64) int64 {
	for ; off+recordHeaderBytes <= w.end; off += recordAlign {
		b := w.window(off, recordHeaderBytes)
		if binary.LittleEndian.Uint32(b) != recordMagic {
			continue
		}
		if _, err := parseRecordHeader(b, w.nonce, off); err == nil {
			return off
		}
	}
	return w.end
}

// footerAt reports whether a sound footer from off to the end is there.
func (w *walker) footerAt(off int64) bool {
	at := w.end - footerTrailerBytes
	b := make([]byte, footerTrailerBytes)
	if _, err := w.f.ReadAt(b, at); err != nil {
		return false
	}
	t, err := parseTrailer(b, at)
	return err == nil && t.Nonce == w.nonce && int64(t.Entries) == off
}
