package server

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str walks a string and returns what it says.
func (s *scanner) str() string {
	if !s.take('"') {
		s.fail(errSyntax)
		return ""
	}
	var out []byte
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.i++
			return string(out)
		case c == '\\':
			out = s.escape(out)
		case c < 0x20:
			s.fail(errSyntax)
		case c < utf8.RuneSelf:
			out = append(out, c)
			s.i++
		default:
			r, n := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && n == 1 {
				s.fail(errSyntax)
				return ""
			}
			out = append(out, s.b[s.i:s.i+n]...)
			s.i += n
		}
	}
	s.fail(errSyntax)
	return ""
}

const (
	escapes = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

func (s *scanner) escape(out []byte) []byte {
	s.i++
	c := s.peek()
	if k := strings.IndexByte(escapes, c); k >= 0 {
		s.i++
		return append(out, escaped[k])
	}
	r := s.unicode()
	if utf16.IsSurrogate(r) {
		if s.peek() != '\\' {
			s.fail(errSyntax)
			return out
		}
		s.i++
		r = utf16.DecodeRune(r, s.unicode())
		if r == utf8.RuneError {
			s.fail(errSyntax)
		}
	}
	return utf8.AppendRune(out, r)
}

// unicode walks uXXXX.
func (s *scanner) unicode() rune {
	if !s.take('u') || s.i+4 > len(s.b) {
		s.fail(errSyntax)
		return 0
	}
	var r rune
	for range 4 {
		c := s.b[s.i]
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			s.fail(errSyntax)
			return 0
		}
		s.i++
	}
	return r
}

func (s *scanner) number() {
	s.take('-')
	if !s.take('0') && s.digits() == 0 {
		s.fail(errSyntax)
	}
	if s.take('.') && s.digits() == 0 {
		s.fail(errSyntax)
	}
	if s.peek()|0x20 == 'e' {
		s.i++
		if !s.take('+') {
			s.take('-')
		}
		if s.digits() == 0 {
			s.fail(errSyntax)
		}
	}
}

func (s *scanner) digits() int {
	start := s.i
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i - start
}
