package runs

import (
	"encoding/binary"
	"unicode/utf8"
)

// reader takes fields from the front of b. After the first that is not there
// it gives zeros, and end gives the error.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) byte() byte {
	if p := r.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if p := r.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if p := r.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (r *reader) rest() []byte { return r.take(len(r.b)) }

func (r *reader) end(what string) error {
	if r.bad || len(r.b) != 0 {
		return badBatch("%s of it is not as it should be", what)
	}
	return nil
}

// textID takes an id as it stands in the arena.
func (r *reader) textID() string {
	switch n := r.byte(); {
	case r.bad:
		return ""
	case n == textNoID:
		return ""
	case n == 0:
		u := r.take(16)
		if u == nil {
			return ""
		}
		id := uuidText(u)
		r.bad = r.bad || !isUUID(id)
		return id
	default:
		id := string(r.take(int(n)))
		r.bad = r.bad || !isExecID(id)
		return id
	}
}

// labels takes labels as they stand in the arena: in order, each once.
func (r *reader) labels() Labels {
	count := int(r.byte())
	if count == 0 || r.bad {
		return nil
	}
	labels := make(Labels, min(count, LabelsMax))
	last := ""
	for range count {
		k := string(r.take(int(r.byte())))
		n := r.uvarint()
		v := string(r.take(n))
		if r.bad || k <= last || n > LabelBytesMax || !utf8.ValidString(v) || count > LabelsMax {
			r.bad = true
			return nil
		}
		labels[k], last = v, k
	}
	return labels
}

// uvarint takes a length in its shortest form.
func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > LabelBytesMax || len(binary.AppendUvarint(nil, v)) != n {
		r.bad = true
		return 0
	}
	r.take(n)
	return int(v)
}
