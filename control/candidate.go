package control

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Part is one part of what a model is shown of a tool's result.
type Part struct {
	raw json.RawMessage
	err error
}

// Text is a text.
func Text(s string) Part {
	return part(struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}{"text", s})
}

// JSON is a value, as JSON: a json.RawMessage keeps its digits and escapes.
func JSON(v any) Part {
	return part(struct {
		Kind  string `json:"kind"`
		Value any    `json:"value"`
	}{"json", v})
}

// Image is an image of at most 5 MiB: image/png, image/jpeg, image/gif or
// image/webp. The store keeps its bytes as an artifact of the run.
func Image(mediaType string, b []byte) Part {
	return part(struct {
		Kind string `json:"kind"`
		Type string `json:"media_type"`
		Data string `json:"data"`
	}{"image", mediaType, base64.StdEncoding.EncodeToString(b)})
}

func part(v any) Part {
	b, err := plainJSON(v)
	return Part{b, err}
}

// Candidate is the line that proposes what a model is shown of a tool's result:
// status is "ok" or "error", how the tool fared, and there are 1 to 64 parts.
// The daemon checks it; one that it refuses is committed as the sentinel.
func Candidate(status string, parts ...Part) ([]byte, error) {
	raw := make([]json.RawMessage, len(parts))
	for i, p := range parts {
		if p.err != nil {
			return nil, p.err
		}
		raw[i] = p.raw
	}
	return plainJSON(struct {
		V      int               `json:"v"`
		Status string            `json:"status"`
		Parts  []json.RawMessage `json:"parts"`
	}{1, status, raw})
}

// plainJSON is v as JSON on one line, with <, > and & as they are.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, errors.Join(errors.New("control: a value that cannot be JSON"), err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func isObject(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b) && utf8.Valid(b)
}

// cut is s in at most max bytes, with a mark where something was cut off.
func cut(s string, max int) string {
	const mark = " …"
	if len(s) <= max {
		return s
	}
	n := max - len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
