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
// at the footer of a sealed pack. The error is one of reading.
func walkPack(f io.ReaderAt, nonce uint64, end int64, visit func(walked)) error {
	w := walker{f: f, nonce: nonce, end: end}
	for off := int64(packHeaderBytes); off < end; {
		r, err := w.record(off)
		if err != nil {
			return err
		}
		if r.hdr.Kind == 0 && w.footerAt(off) {
			return nil
		}
		visit(r)
		off = r.end
	}
	return nil
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
func (w *walker) window(off, n int64) ([]byte, error) {
	n = min(n, w.end-off)
	if off < w.at || off+n > w.at+int64(len(w.buf)) {
		size := min(walkBytes, w.end-off)
		if int64(cap(w.buf)) < size {
			w.buf = make([]byte, size)
		}
		w.buf, w.at = w.buf[:size], off
		got, err := w.f.ReadAt(w.buf, off)
		if err != nil && !errors.Is(err, io.EOF) {
			w.buf = w.buf[:0]
			return nil, err
		}
		w.buf = w.buf[:got]
	}
	b := w.buf[off-w.at:]
	return b[:min(n, int64(len(b)))], nil
}

// record reads what is at off: a record, or the range up to the next one.
func (w *walker) record(off int64) (walked, error) {
	b, err := w.window(off, recordHeaderBytes+recordBodyMax)
	if err != nil {
		return walked{}, err
	}
	hdr, perr := parseRecordHeader(b, w.nonce, off)
	if perr != nil {
		end, err := w.resync(off + recordAlign)
		return walked{off: off, end: end, err: perr}, err
	}
	r := walked{hdr: hdr, off: off, end: off + hdr.bytes()}
	if r.end > w.end || int64(len(b)) < hdr.bytes() {
		r.end, r.err = w.end, errors.New("the record is cut off")
		return r, nil
	}
	r.body = b[recordHeaderBytes:][:hdr.Stored]
	switch {
	case checksum(r.body) != hdr.CRC:
		r.err = errors.New("the body's checksum is wrong")
	case !allZero(b[recordHeaderBytes+int64(hdr.Stored) : hdr.bytes()]):
		r.err = errors.New("the bytes behind the body are not zero")
	}
	return r, nil
}

// resync finds the next offset from off where a record's header checks.
func (w *walker) resync(off int64) (int64, error) {
	for ; off < w.end; off += recordAlign {
		b, err := w.window(off, recordHeaderBytes)
		if err != nil {
			return 0, err
		}
		if len(b) < recordHeaderBytes {
			break
		}
		if binary.LittleEndian.Uint32(b) != recordMagic {
			continue
		}
		if _, err := parseRecordHeader(b, w.nonce, off); err == nil {
			return off, nil
		}
	}
	return w.end, nil
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
