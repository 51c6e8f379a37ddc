package server

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// depthMax bounds how deep the JSON of an envelope may nest.
const depthMax = 32

// scanError is what is wrong with a document: one of the kinds below, at an
// offset, in a field.
type scanError struct {
	kind  error
	field string // "" for the document
	at    int
}

var (
	errSyntax    = errors.New("not one JSON value")
	errTrailing  = errors.New("bytes after the JSON value")
	errUnknown   = errors.New("unknown field")
	errDuplicate = errors.New("the name is there twice")
	errDepth     = errors.New("nested too deep")
	errNull      = errors.New("a null is no value here")
)

func (e *scanError) Error() string {
	if e.field != "" {
		return fmt.Sprintf("%v: %q (at byte %d)", e.kind, bounded(e.field, fieldShownMax), e.at)
	}
	return fmt.Sprintf("%v (at byte %d)", e.kind, e.at)
}

func (e *scanError) Unwrap() error { return e.kind }

// scan checks that b is exactly one JSON value (RFC 8259) in valid UTF-8 that
// fits the shape of t: at any depth no name twice, no name that a struct of t
// does not have in exactly that spelling, no lone surrogate. encoding/json
// takes all of these: the last of two names wins, "ID" is id, and "\ud800"
// becomes another character; two programs that read one document differently
// are how a check is passed with one value and another one is used.
//
// Whether the values' kinds are right is left to encoding/json. What t keeps
// as raw JSON is the caller's own and only has to be JSON.
func scan(b []byte, t reflect.Type) *scanError {
	s := scanner{b: b}
	s.space()
	s.value(t, 0)
	s.space()
	if s.err == nil && s.i < len(b) {
		s.fail(errTrailing)
	}
	return s.err
}

// scanner walks b. After the first error it stands still at the end.
type scanner struct {
	b    []byte
	i    int
	path []string
	err  *scanError
}

func (s *scanner) fail(kind error) {
	if s.err == nil {
		s.err = &scanError{kind: kind, field: strings.Join(s.path, "."), at: s.i}
		s.i = len(s.b)
	}
}

// peek is the next byte, 0 at the end. (A NUL in the document is refused
// wherever it stands.)
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

func (s *scanner) value(t reflect.Type, depth int) {
	if depth > depthMax {
		s.fail(errDepth)
		return
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch c := s.peek(); {
	case c == '{':
		s.object(t, depth)
	case c == '[':
		s.array(t, depth)
	case c == '"':
		s.str()
	case c == '-' || '0' <= c && c <= '9':
		s.number()
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.fail(errSyntax)
	}
}

func (s *scanner) word(w string) {
	if !strings.HasPrefix(string(s.b[s.i:min(len(s.b), s.i+len(w))]), w) {
		s.fail(errSyntax)
		return
	}
	s.i += len(w)
}

func (s *scanner) object(t reflect.Type, depth int) {
	names := namesOf(t)
	seen := map[string]bool{}
	s.i++
	s.space()
	if s.take('}') {
		return
	}
	for s.err == nil {
		name := s.str()
		s.path = append(s.path, name)
		s.checkName(t, names, seen, name)
		s.space()
		if !s.take(':') {
			s.fail(errSyntax)
		}
		s.space()
		if names == nil && t != nil && s.peek() == 'n' {
			s.fail(errNull) // encoding/json would make an empty value of it
		}
		s.value(elem(t, names, name), depth+1)
		s.path = s.path[:len(s.path)-1]
		s.space()
		if s.take('}') {
			return
		}
		if !s.take(',') {
			s.fail(errSyntax)
		}
		s.space()
	}
}

func (s *scanner) checkName(t reflect.Type, names map[string]reflect.Type, seen map[string]bool, name string) {
	switch {
	case s.err != nil || t == nil:
	case seen[name]:
		s.fail(errDuplicate)
	case names != nil && names[name] == nil:
		s.fail(errUnknown)
	}
	seen[name] = true
}

func (s *scanner) array(t reflect.Type, depth int) {
	var e reflect.Type
	if t != nil && t.Kind() == reflect.Slice {
		e = t.Elem()
	}
	s.i++
	s.space()
	if s.take(']') {
		return
	}
	for s.err == nil {
		s.value(e, depth+1)
		s.space()
		if s.take(']') {
			return
		}
		if !s.take(',') {
			s.fail(errSyntax)
		}
		s.space()
	}
}

// namesOf are the JSON names of a struct's fields and their types; nil for
// what is no struct, where any name goes.
func namesOf(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	names := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag != "" && tag != "-" {
			names[tag] = f.Type
		}
	}
	return names
}

// elem is the type of the member name of an object of type t; nil where
// anything goes, which is so for raw JSON too.
func elem(t reflect.Type, names map[string]reflect.Type, name string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case names != nil:
		if names[name] == rawType {
			return nil
		}
		return names[name]
	case t.Kind() == reflect.Map:
		return t.Elem()
	}
	return nil
}
