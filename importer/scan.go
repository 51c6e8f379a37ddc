package importer

import (
	"errors"
	"fmt"
)

// Why a text is not a JSON value. errTorn: it ended too soon, and all until
// there is well-formed.
var (
	errTorn = errors.New("ends in the middle of a value")
	errDeep = fmt.Errorf("nested deeper than %d", RowDepthMax)
)

// syntaxError says what is wrong at the scanner's position.
type syntaxError string

func (e syntaxError) Error() string { return string(e) }

// scanner reads JSON strictly and keeps nothing of it.
type scanner struct {
	src []byte
	pos int
	// members, if set, is called for each field of the outermost object, with
	// its raw name (quotes included) and where name and value lie.
	members func(name []byte, m member)
	// broken is set when a line break stood between two tokens.
	broken bool
}

// member is a field: src[name:nameEnd] is its name, src[value:end] its value.
// While the value is not read yet, end is 0.
type member struct{ name, nameEnd, value, end int }

func (s *scanner) blank() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case '\n':
			s.broken = true
		case ' ', '\t', '\r':
		default:
			return
		}
		s.pos++
	}
}

// value reads one value.
func (s *scanner) value(depth int) error {
	s.blank()
	if s.pos == len(s.src) {
		return errTorn
	}
	if depth > RowDepthMax {
		return errDeep
	}
	switch c := s.src[s.pos]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		return s.str()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	default:
		return s.unexpected()
	}
}

func (s *scanner) unexpected() error {
	if s.pos >= len(s.src) {
		return errTorn
	}
	return syntaxError(fmt.Sprintf("%q is unexpected", s.src[s.pos]))
}

// next passes over the byte c, or says that it is missing.
func (s *scanner) next(c byte) error {
	s.blank()
	if s.pos == len(s.src) || s.src[s.pos] != c {
		return s.unexpected()
	}
	s.pos++
	return nil
}

func (s *scanner) at(c byte) bool {
	s.blank()
	return s.pos < len(s.src) && s.src[s.pos] == c
}

func (s *scanner) object(depth int) error {
	s.pos++
	if s.at('}') {
		s.pos++
		return nil
	}
	for {
		if err := s.field(depth); err != nil {
			return err
		}
		if !s.at(',') {
			return s.next('}')
		}
		s.pos++
	}
}

func (s *scanner) field(depth int) error {
	if !s.at('"') {
		return s.unexpected()
	}
	m := member{name: s.pos}
	if err := s.str(); err != nil {
		return err
	}
	m.nameEnd = s.pos
	if err := s.next(':'); err != nil {
		return err
	}
	s.blank()
	m.value = s.pos
	err := s.value(depth + 1)
	if depth == 0 && s.members != nil {
		if err == nil {
			m.end = s.pos
		}
		s.members(s.src[m.name:m.nameEnd], m)
	}
	return err
}

func (s *scanner) array(depth int) error {
	s.pos++
	if s.at(']') {
		s.pos++
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if !s.at(',') {
			return s.next(']')
		}
		s.pos++
	}
}

func (s *scanner) str() error {
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < ' ':
			return s.unexpected()
		}
	}
	return errTorn
}

// escape reads from the backslash to the last byte of the escape.
func (s *scanner) escape() error {
	s.pos++
	if s.pos == len(s.src) {
		return errTorn
	}
	switch s.src[s.pos] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.pos++
			if s.pos == len(s.src) {
				return errTorn
			}
			if !isHex(s.src[s.pos]) {
				return s.unexpected()
			}
		}
		return nil
	}
	return s.unexpected()
}

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (s *scanner) word(w string) error {
	for i := range len(w) {
		if s.pos == len(s.src) || s.src[s.pos] != w[i] {
			return s.unexpected()
		}
		s.pos++
	}
	return nil
}

func (s *scanner) number() error {
	s.accept("-")
	if !s.accept("0") {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.accept(".") {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.accept("eE") {
		s.accept("+-")
		return s.digits()
	}
	return nil
}

func (s *scanner) accept(set string) bool {
	for i := range len(set) {
		if s.pos < len(s.src) && s.src[s.pos] == set[i] {
			s.pos++
			return true
		}
	}
	return false
}

func (s *scanner) digits() error {
	from := s.pos
	for s.pos < len(s.src) && isDigit(s.src[s.pos]) {
		s.pos++
	}
	if s.pos == from {
		return s.unexpected()
	}
	return nil
}
