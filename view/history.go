package view

import (
	"bytes"
	"encoding/json"
	"strconv"

	"durafs/runs"
)

// momentKey changes with whatever a run's log tells: rows, records, damage, what
// was deleted of its payloads.
type momentKey struct {
	listKey
	rows uint64
}

func keyOf(r runs.Run) momentKey {
	return momentKey{listKeyOf(r), r.LastSeq}
}

// history is the file of a run's history: one moment of it.
func (v *View) history(r runs.Run) (*rendered, error) {
	return v.histories.get(keyOf(r), func() (*rendered, error) {
		lines, err := v.src.OpenHistory(r.Ref)
		if err != nil {
			return nil, err
		}
		return render(lines.Len(), lines.Append)
	}, (*rendered).HeldBytes)
}

// calls are a run's tool calls.
func (v *View) calls(r runs.Run) (runs.CallLog, error) {
	return v.callLogs.get(keyOf(r), func() (runs.CallLog, error) { return v.src.OpenCalls(r.Ref) },
		func(c runs.CallLog) int64 { return int64(c.Len()) * weightOfPiece })
}

// call is the text of the file of a call.
func (v *View) call(r runs.Run, number uint32) ([]byte, error) {
	calls, err := v.calls(r)
	if err != nil {
		return nil, err
	}
	if number == 0 || int64(number) > int64(calls.Len()) {
		return nil, ErrNotExist
	}
	return v.texts.get(textKey{keyOf(r), number}, func() ([]byte, error) {
		c, err := calls.Call(int(number))
		if err != nil {
			return nil, err
		}
		return indented(c)
	}, func(b []byte) int64 { return int64(cap(b)) })
}

// textKey is the key of a call's text.
type textKey struct {
	momentKey
	call uint32
}

// indented is v as JSON for people, and a newline.
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// line is v as the API answers it.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// callName is the name of a call's file; parseNumber is its inverse.
func callName(number uint64) string { return strconv.FormatUint(number, 10) }

// parseNumber takes a number in its one spelling.
func parseNumber(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}
