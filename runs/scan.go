package runs

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// scanner walks JSON text (RFC 8259) without building values: rows are kept
// byte for byte, numbers of any length and lone surrogate escapes included,
// which a decoder would change. UTF-8 was checked before.
type scanner struct {
	src    []byte
	at     int
	failed bool
}

// end reports whether exactly one value and blanks were walked.
func (s *scanner) end() bool {
	s.blank()
	return !s.failed && s.at == len(s.src)
}

func (s *scanner) fail() { s.failed = true }

func (s *scanner) peek() byte {
	if s.at < len(s.src) {
		return s.src[s.at]
	}
	return 0
}

func (s *scanner) blank() {
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.at >= len(s.src) {
		return false
	}
	s.at++
	return true
}

func (s *scanner) value(depth int) {
	switch c := s.peek(); {
	case c == '{':
		s.object(depth, nil)
	case c == '[':
		s.array(depth)
	case c == '"':
		s.str()
	case c == '-' || '0' <= c && c <= '9':
		s.number()
	default:
		s.word()
	}
}

// object walks an object and tells each member to fn, if there is one.
func (s *scanner) object(depth int, fn func(name, value []byte)) {
	if depth >= RowDepthMax || !s.take('{') {
		s.fail()
		return
	}
	s.blank()
	if s.take('}') {
		return
	}
	for !s.failed {
		s.blank()
		from := s.at
		s.str()
		name := s.src[from:s.at]
		s.blank()
		if !s.take(':') {
			s.fail()
			return
		}
		s.blank()
		from = s.at
		s.value(depth + 1)
		if fn != nil && !s.failed {
			fn(unquote(name), s.src[from:s.at])
		}
		s.blank()
		if s.take('}') {
			return
		}
		if !s.take(',') {
			s.fail()
		}
	}
}

func (s *scanner) array(depth int) {
	if depth >= RowDepthMax {
		s.fail()
		return
	}
	s.at++
	s.blank()
	if s.take(']') {
		return
	}
	for !s.failed {
		s.blank()
		s.value(depth + 1)
		s.blank()
		if s.take(']') {
			return
		}
		if !s.take(',') {
			s.fail()
		}
	}
}

func (s *scanner) str() {
	if !s.take('"') {
		s.fail()
		return
	}
	for !s.failed {
		at, src := literals(s.src, s.at), s.src
		s.at = at
		switch {
		case at == len(src) || src[at] < 0x20:
			s.fail()
		case src[at] == '"':
			s.at++
			return
		default:
			s.escape()
		}
	}
}

// literals is where, from at on, the first byte stands that does not stand for
// itself in a string. It looks at eight at a time: most of a row is text.
func literals(src []byte, at int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; at+8 <= len(src); at += 8 {
		w := binary.LittleEndian.Uint64(src[at:])
		quote, back := w^(ones*'"'), w^(ones*'\\')
		// A byte's high bit is set where it is below 0x20, or zero after the
		// xor: borrows reach only bytes above one that is found.
		found := ((w - ones*0x20) &^ w) | ((quote - ones) &^ quote) | ((back - ones) &^ back)
		if found &= highs; found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(src) && literal[src[at]] {
		at++
	}
	return at
}

// literal are the bytes that stand for themselves in a string.
var literal = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

func (s *scanner) escape() {
	if s.at+1 >= len(s.src) {
		s.fail()
		return
	}
	switch s.src[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
	case 'u':
		if s.at+6 > len(s.src) {
			s.fail()
			return
		}
		for _, c := range s.src[s.at+2 : s.at+6] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				s.fail()
			}
		}
		s.at += 6
	default:
		s.fail()
	}
}

func (s *scanner) number() {
	s.take('-')
	if !s.take('0') && !s.digits() {
		s.fail()
		return
	}
	if s.take('.') && !s.digits() {
		s.fail()
		return
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			s.fail()
		}
	}
}

func (s *scanner) digits() bool {
	from := s.at
	for '0' <= s.peek() && s.peek() <= '9' {
		s.at++
	}
	return s.at > from
}

func (s *scanner) word() {
	for _, w := range []string{"true", "false", "null"} {
		if len(s.src)-s.at >= len(w) && string(s.src[s.at:s.at+len(w)]) == w {
			s.at += len(w)
			return
		}
	}
	s.fail()
}

// unquote is what a member's name says, its escapes resolved.
func unquote(name []byte) []byte {
	plain := name[1 : len(name)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		return plain
	}
	var text string
	if json.Unmarshal(name, &text) != nil {
		return nil
	}
	return []byte(text)
}
