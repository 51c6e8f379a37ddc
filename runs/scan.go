package runs

import (
	"bytes"
	"encoding/json"

	"durafs/internal/jsonscan"
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

func (s *scanner) blank() { s.at = jsonscan.Blank(s.src, s.at) }

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
	if s.peek() != '"' {
		s.fail()
		return
	}
	end, _ := jsonscan.String(s.src, s.at)
	s.to(end)
}

func (s *scanner) number() { s.to(jsonscan.Number(s.src, s.at)) }

func (s *scanner) word() { s.to(jsonscan.Word(s.src, s.at)) }

// to goes behind a token, or fails where it is none.
func (s *scanner) to(end int) {
	if end < 0 {
		s.fail()
		return
	}
	s.at = end
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
