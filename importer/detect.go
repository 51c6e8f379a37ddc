package importer

import (
	"bytes"
	"errors"
)

// bom is the byte order mark that some editors put in front of a text.
var bom = []byte("\xef\xbb\xbf")

// Names at the top of an object that tell what it is.
var (
	trajectoryNames = []string{"trajectory", "history"}
	chatNames       = []string{"messages", "messages_display", "conversations", "traj", "role", "choices"}
)

// Detect tells the format of a file by how it begins; HeadBytesMax of it are
// enough.
func Detect(head []byte) Format {
	head = bytes.TrimPrefix(head, bom)
	names := map[string]bool{}
	s := scanner{src: head, members: func(name []byte, _ member) { names[unquote(name)] = true }}
	s.blank()
	s.broken = false
	if s.at('[') {
		return Trajectory
	}
	if !s.at('{') {
		return detectLater(head)
	}
	err := s.value(0)
	whole := err == nil || errors.Is(err, errTorn)
	if overLines := s.broken; overLines && (whole || !s.atRow()) {
		return Trajectory
	}
	if whole && !names["type"] && hasAny(names, trajectoryNames) {
		if s.blank(); s.pos == len(s.src) { // no other line follows
			return Trajectory
		}
	}
	if !names["type"] && hasAny(names, chatNames) {
		return ChatLines
	}
	if whole {
		return AgentLines
	}
	return detectLater(head)
}

// atRow reports whether an object begins where the scanner stands, and a line
// too: then what was read before is a torn line and not the part of a document.
func (s *scanner) atRow() bool {
	before := bytes.TrimRight(s.src[:s.pos], " \t\r")
	return s.pos < len(s.src) && s.src[s.pos] == '{' && bytes.HasSuffix(before, []byte("\n"))
}

// detectLater looks for the first line that is an object: a file may begin
// with a torn one.
func detectLater(head []byte) Format {
	_, rest, more := bytes.Cut(head, []byte("\n"))
	for more && len(rest) > 0 {
		var line []byte
		line, rest, more = bytes.Cut(rest, []byte("\n"))
		names := map[string]bool{}
		s := scanner{src: line, members: func(name []byte, _ member) { names[unquote(name)] = true }}
		if !s.at('{') || s.value(0) != nil {
			continue
		}
		if !names["type"] && hasAny(names, chatNames) {
			return ChatLines
		}
		return AgentLines
	}
	if start := bytes.TrimLeft(head, " \t\r\n\x00"); len(start) > 0 && start[0] == '{' {
		return AgentLines // with nothing readable in sight; the reader says why
	}
	return Unknown
}

func hasAny(names map[string]bool, of []string) bool {
	for _, n := range of {
		if names[n] {
			return true
		}
	}
	return false
}
