package view

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"durafs/internal/term"
	"durafs/runs"
)

// Files in a thread's directory.
const (
	threadDir = iota
	threadText
	threadJSON
)

var threadFiles = [...]string{threadText: "text", threadJSON: "json"}

// thread finds the thread that a node is of.
func (v *View) thread(n Node) (runs.ThreadHead, error) {
	if list := v.src.ThreadsFrom(n.lsn(), 1); len(list) == 1 && list[0].Number == n.lsn() {
		return list[0], nil
	}
	return runs.ThreadHead{}, ErrStale // or it has never been one
}

// threadKey is a moment of a thread. The newest run is part of it, since only
// the newest ones of a thread tell their calls.
type threadKey struct {
	head   runs.ThreadHead
	file   uint32
	newest runs.Ref
}

// threadFile is a thread as of a moment, for people or for programs.
func (v *View) threadFile(n Node) (*rendered, error) {
	h, err := v.thread(n)
	if err != nil {
		return nil, err
	}
	return v.threadTexts.get(threadKey{h, n.threadFile(), v.src.Newest()}, func() (*rendered, error) {
		c, ok := v.src.OpenThread(h.Name)
		if !ok {
			return nil, ErrStale
		}
		if n.threadFile() == threadText {
			return render(c.Len(), func(dst []byte, i int) ([]byte, error) {
				m, err := c.Message(i)
				return append(appendMessage(dst, &m), '\n'), err
			})
		}
		return render(c.Len(), func(dst []byte, i int) ([]byte, error) { return appendThreadJSON(dst, h.Name, c, i) })
	}, (*rendered).HeldBytes)
}

// appendThreadJSON appends message i of the object that the API answers for a
// thread, with what stands before the first and behind the last.
func appendThreadJSON(dst []byte, name string, c runs.Conversation, i int) ([]byte, error) {
	m, err := c.Message(i)
	if err != nil {
		return dst, err
	}
	text, err := line(m)
	if err != nil {
		return dst, err
	}
	if dst = append(dst, ','); i == 0 {
		quoted, err := line(name)
		if err != nil {
			return dst, err
		}
		dst = append(append(append(dst[:len(dst)-1], `{"thread":`...), bytes.TrimSuffix(quoted, []byte("\n"))...), `,"messages":[`...)
	}
	if dst = append(dst, bytes.TrimSuffix(text, []byte("\n"))...); i == c.Len()-1 {
		dst = append(dst, "]}\n"...)
	}
	return dst, nil
}

// appendMessage appends a message for people; the lines behind the
// first are indented.
func appendMessage(dst []byte, m *runs.Message) []byte {
	text := m.Text
	switch {
	case m.Damaged:
		text = "(it cannot be read any more)"
	case m.Digest != "":
		text = m.Digest + "… (its payload has all of it)"
	case m.Role == "user":
		text = spoken(m.Message)
	}
	who := m.Role
	if m.Status != "" {
		who += " (" + m.Status + ", " + m.Run + ")"
	}
	dst = m.At.UTC().AppendFormat(dst, "2006-01-02 15:04:05.000Z")
	dst = append(append(append(dst, "  "...), term.Safe(who)...), ": "...)
	for i, l := range strings.Split(text, "\n") {
		if i > 0 {
			dst = append(dst, "\n    "...)
		}
		dst = append(dst, term.Safe(l)...)
	}
	return dst
}

// spoken is a user's turn: a string without its quotes, and the rest as it is.
func spoken(message json.RawMessage) string {
	if len(message) > 0 && message[0] == '"' {
		var s string
		if json.Unmarshal(message, &s) == nil {
			return s
		}
	}
	return string(message)
}

// journalText is a journal as the API answers it.
func (v *View) journalText(t runs.Target) ([]byte, error) {
	rows, err := v.src.Journal(runs.Caller{Owner: true}, t.Name, 0)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, row := range rows {
		b = strconv.AppendUint(append(b, `{"lsn":`...), row.LSN, 10)
		b = append(append(append(b, ','), row.JSON[1:]...), '\n')
	}
	return b, nil
}

// target finds the target whose journal a node is.
func (v *View) target(n Node) (runs.Target, error) {
	for _, t := range v.src.JournalTargets() {
		if journalFile(t) == n {
			return t, nil
		}
	}
	return runs.Target{}, ErrNotExist
}

// journal is the text of a journal's file, kept for as long as it is the same.
func (v *View) journal(t runs.Target) ([]byte, error) {
	key := journalKey{t.Name, v.src.JournalVersion(t.Name)}
	return v.journals.get(key, func() ([]byte, error) { return v.journalText(t) }, func(b []byte) int64 { return int64(cap(b)) })
}

type journalKey struct {
	target  string
	version uint64
}
