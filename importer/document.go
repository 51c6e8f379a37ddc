package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// arrays are the fields of a document whose elements become rows, with the
// type of a row that has none.
var arrays = map[string]string{
	"trajectory": "step",
	"history":    "message",
	"messages":   "message",
	"traj":       "message",
	"steps":      "step",
	"events":     "event",
}

// errStop ends a document that cannot be read on; the reason was told.
var errStop = errors.New("stop")

// document reads JSON documents: one as a rule, several where they follow one
// another.
func (r *reader) document() error {
	r.in.skipBOM()
	for {
		c, err := r.in.peek()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case c == '{':
			err = r.members()
		case c == '[':
			err = r.elements("entry")
		default:
			r.tell(r.in.place, true, "%q is unexpected behind the document; the rest of the file is passed over", c)
			err = errStop
		}
		if errors.Is(err, errStop) {
			return r.drain()
		}
		if err != nil {
			return err
		}
	}
}

// drain reads what is passed over, so that lines and bytes are counted.
func (r *reader) drain() error {
	for {
		if _, err := r.in.r.Peek(1); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		p, _ := r.in.r.Peek(r.in.r.Buffered())
		r.in.passed(p)
		r.in.r.Discard(len(p))
	}
}

// members reads the object that is the document.
func (r *reader) members() error {
	r.in.skip()
	for first := true; ; first = false {
		if done, err := r.separator('}', first); done || err != nil {
			return err
		}
		at := r.in.place
		raw, err := r.raw(nameBytesMax)
		if err != nil {
			return err
		}
		s := scanner{src: raw}
		if !isText(raw) || !s.at('"') || s.str() != nil {
			r.tell(at, true, "not a field's name; the rest of the file is passed over")
			return errStop
		}
		if c, err := r.in.peek(); err != nil || c != ':' {
			return r.torn(err)
		}
		r.in.skip()
		if err := r.member(bytes.Clone(raw)); err != nil {
			return err
		}
	}
}

// member reads the value of the field with this raw name.
func (r *reader) member(raw []byte) error {
	name := unquote(raw)
	c, err := r.in.peek()
	if err != nil {
		return r.torn(err)
	}
	if kind, ok := arrays[name]; ok && c == '[' {
		return r.elements(kind)
	}
	return r.value(func(at place, value []byte) error {
		kind, err := json.Marshal(name)
		if err != nil {
			return err
		}
		if slices.Contains(reserved, name) {
			r.sum.Renamed++
			r.tell(at, false, "the field %q is the log's own name; renamed to %q", name, "source_"+name)
			raw = []byte(`"source_` + name + `"`)
		}
		row := slices.Concat([]byte(`{"type":`), kind, []byte(`,`), raw, []byte(`:`), value, []byte(`}`))
		if name == "type" { // it says itself what it is
			row = slices.Concat([]byte(`{`), raw, []byte(`:`), value, []byte(`}`))
		}
		return r.object(at, row, "entry")
	})
}

// elements reads an array of rows.
func (r *reader) elements(kind string) error {
	r.in.skip()
	for first := true; ; first = false {
		if done, err := r.separator(']', first); done || err != nil {
			return err
		}
		err := r.value(func(at place, value []byte) error {
			if value[0] != '{' {
				value = slices.Concat([]byte(`{"value":`), value, []byte(`}`))
			}
			return r.object(at, value, kind)
		})
		if err != nil {
			return err
		}
	}
}

// separator passes over the comma before the next part, or the end.
func (r *reader) separator(end byte, first bool) (done bool, err error) {
	c, err := r.in.peek()
	switch {
	case err != nil:
		return false, r.torn(err)
	case c == end:
		r.in.skip()
		return true, nil
	case first:
		return false, nil
	case c == ',':
		r.in.skip()
		if _, err := r.in.peek(); err != nil {
			return false, r.torn(err)
		}
		return false, nil
	}
	return false, r.torn(nil)
}

// torn tells that the document cannot be read on from here, and why: by err,
// or where that is nil by what stands there.
func (r *reader) torn(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err != nil {
		r.tell(r.in.place, true, "the document %v: what follows the last whole part is missing", errTorn)
		return errStop
	}
	c, _ := r.in.peek()
	r.tell(r.in.place, true, "not JSON: %q is unexpected; the rest of the file is passed over", c)
	return errStop
}

// value reads one value of the document and hands it to fn on one line. What
// is not valid in itself is told and passed over.
func (r *reader) value(fn func(place, []byte) error) error {
	if _, err := r.in.peek(); err != nil {
		return r.torn(err)
	}
	at := r.in.place
	raw, err := r.raw(r.in.bytesMax)
	if err != nil {
		return err
	}
	if raw == nil { // too long, and told
		return nil
	}
	if !isText(raw) {
		return r.binary(at, raw)
	}
	s := scanner{src: raw}
	if err := s.value(1); err != nil || s.pos != len(raw) {
		if err == nil {
			err = s.unexpected()
		}
		r.tell(place{at.line + bytes.Count(raw[:s.pos], []byte("\n")), at.offset + int64(s.pos)}, true,
			"not JSON: %v; the part that begins at line %d is passed over", err, at.line)
		return nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return err // the scanner is as strict: this cannot be
	}
	return fn(at, line.Bytes())
}

// raw reads one value to its end as brackets and quotes tell it, whatever is
// between them. A longer one than bytesMax is told and passed over: nil.
func (r *reader) raw(bytesMax int) ([]byte, error) {
	at := r.in.place
	e := extent{}
	buf := r.in.buf[:0]
	n := int64(0)
	for !e.done {
		c, err := r.in.r.ReadByte()
		if err != nil && (!errors.Is(err, io.EOF) || !e.scalar) {
			return nil, r.torn(err)
		}
		if err != nil || !e.step(c) { // c is behind the value
			if err == nil {
				r.in.r.UnreadByte()
			}
			break
		}
		r.in.passed([]byte{c})
		if n++; n <= int64(bytesMax) {
			buf = append(buf, c)
		}
	}
	r.in.buf = buf
	if n == 0 {
		return nil, r.torn(nil)
	}
	if n > int64(bytesMax) {
		r.tell(at, true, "a part of %d bytes, and the limit is %d; passed over", n, bytesMax)
		return nil, nil
	}
	return buf, nil
}

// extent finds where a value ends.
type extent struct {
	depth           int
	quoted, escaped bool
	scalar, done    bool
}

// step takes the next byte; false says that it is not of the value any more.
func (e *extent) step(c byte) bool {
	switch {
	case e.quoted:
		e.inString(c)
		return true
	case c == '"':
		if e.scalar {
			return false
		}
		e.quoted = true
	case c == '{' || c == '[':
		if e.scalar {
			return false
		}
		e.depth++
	case c == '}' || c == ']':
		if e.depth == 0 {
			return false
		}
		e.depth--
		e.done = e.depth == 0
	case e.depth == 0: // a number or a word goes to the next separator
		if c == ',' || c == ':' || c == ' ' || c == '\t' || c == '\r' || c == '\n' {
			return false
		}
		e.scalar = true
	}
	return true
}

func (e *extent) inString(c byte) {
	switch {
	case e.escaped:
		e.escaped = false
	case c == '\\':
		e.escaped = true
	case c == '"':
		e.quoted = false
		e.done = e.depth == 0
	}
}
