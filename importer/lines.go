package importer

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// resyncMax bounds how many places of a torn line are tried.
const resyncMax = 16

// lines reads a file of one object a line. Lines end with a line feed and with
// nothing else: U+2028 and the like are text.
func (r *reader) lines() error {
	r.in.skipBOM()
	for {
		at := r.in.place
		line, whole, long, err := r.in.readLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if long > 0 {
			r.tell(at, true, "a line of %d bytes, and the limit is %d; passed over", long, r.in.bytesMax)
			continue
		}
		if err := r.oneLine(at, line, whole); err != nil {
			return err
		}
	}
}

func (r *reader) oneLine(at place, line []byte, whole bool) error {
	text, at := trim(line, at, " \t\r")
	if len(text) == 0 {
		return nil
	}
	if padded, inside := trim(text, at, "\x00 \t\r"); len(padded) < len(text) {
		if len(padded) == 0 {
			r.tell(at, true, "%d NUL bytes; passed over", len(text))
			return nil
		}
		if isText(padded) {
			r.tell(at, false, "%d NUL bytes around the row were dropped", len(text)-len(padded))
			text, at = padded, inside
		}
	}
	if !isText(text) {
		return r.binary(at, text)
	}
	return r.objects(at, text, whole)
}

// trim takes bytes of the set from both ends.
func trim(p []byte, at place, set string) ([]byte, place) {
	left := bytes.TrimLeft(p, set)
	at.offset += int64(len(p) - len(left))
	return bytes.TrimRight(left, set), at
}

func isText(p []byte) bool { return utf8.Valid(p) && bytes.IndexByte(p, 0) < 0 }

// objects reads the objects of a line: one as a rule, several where a line
// break got lost.
func (r *reader) objects(at place, text []byte, whole bool) error {
	for n := 1; len(text) > 0; n++ {
		s := scanner{src: text}
		isObject := s.at('{')
		err := s.value(0)
		if err != nil {
			return r.broken(at, text, &s, err, whole)
		}
		rest, restAt := trim(text[s.pos:], place{at.line, at.offset + int64(s.pos)}, " \t\r")
		switch {
		case !isObject:
			r.tell(at, true, "JSON, but not an object; passed over")
		case n == 1 && len(rest) > 0 && rest[0] == '{':
			r.tell(restAt, false, "a second object on the same line; it becomes a row of its own")
			r.sum.Fused++
			fallthrough
		default:
			if err := r.object(at, text[:s.pos], r.lineType()); err != nil {
				return err
			}
		}
		text, at = rest, restAt
	}
	return nil
}

// broken tells of text that is no JSON, and reads the row that follows a torn
// one on the same line: an agent that died while it wrote, and its successor
// went on right there. That the text only ends too soon is no such case, since
// then what looks like a row at its end may as well be a part of it.
func (r *reader) broken(at place, text []byte, s *scanner, why error, whole bool) error {
	if errors.Is(why, errTorn) {
		if whole {
			r.tell(at, true, "the line %v; passed over", why)
		} else {
			r.tell(at, true, "the file %v; passed over", why)
		}
		return nil
	}
	if next := r.resync(text); next > 0 {
		r.tell(at, true, "a torn row of %d bytes, passed over; the row behind it on the same line is read", next)
		return r.objects(place{at.line, at.offset + int64(next)}, text[next:], whole)
	}
	r.tell(place{at.line, at.offset + int64(s.pos)}, true, "not JSON: %v; the line is passed over from byte %d on", why, at.offset)
	return nil
}

// resync finds where a row begins that is whole to the end of the line, and
// begins like the first row of the file. 0 is nowhere.
func (r *reader) resync(text []byte) int {
	if len(r.start) == 0 {
		return 0
	}
	from := 1
	for range resyncMax {
		i := bytes.Index(text[min(from, len(text)):], r.start)
		if i < 0 {
			return 0
		}
		from += i
		s := scanner{src: text[from:]}
		if s.value(0) == nil {
			if s.blank(); s.pos == len(s.src) {
				return from
			}
		}
		from++
	}
	return 0
}

// lineType is the type of a line's object that has none.
func (r *reader) lineType() string {
	if r.sum.Format == ChatLines {
		return "chat"
	}
	return "entry"
}
