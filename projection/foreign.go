package projection

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"durafs/internal/jsonscan"
)

// This file and foreign_row.go are the only places that know other shapes of a
// tool's result than the one of this package: what logs of other programs hold,
// and what this store's held before a result had a projection. Nothing new is
// written in them.

// Foreign makes of such a result what a model is shown. It never fails: what it
// does not know becomes one part with its own bytes, as JSON where it is some
// within the bounds, else as text; what is too large is cut, and says so. What
// it makes is always within the bounds, and refers to nothing: an image that is
// named by a path, or stands in the log itself, becomes a text that says so.
//
//	"text"                                    a text
//	{"stdout":…,"stderr":…,"exit_code":1}     texts, and an error if the code is not 0
//	{"content":"text"}                        a text
//	{"content":[{"type":"text","text":…}, …]} each block as one part
//	[{"type":"text","text":…}, …]             the same
//	{"type":"image","path":"plot.png"}        a text that names the image
func Foreign(value []byte) Projection {
	p, ok := foreignValue(value)
	if !ok {
		p = Projection{Status: OK, Parts: []Part{ownBytes(value)}}
	}
	if len(p.Parts) == 0 {
		p.Parts = []Part{Text("")}
	}
	if _, err := Encode(p, "r"); err == nil {
		return p
	}
	return Projection{Status: p.Status, Parts: []Part{cut(textOf(p, value))}}
}

// textOf is what a projection that does not fit says: its texts, or the value
// that it was made of.
func textOf(p Projection, value []byte) string {
	var texts []string
	for _, part := range p.Parts {
		text, ok := part.(Text)
		if !ok {
			return toText(string(value))
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "\n")
}

// ownBytes is a value as it is.
func ownBytes(value []byte) Part {
	if utf8.Valid(value) && jsonscan.Valid(value, DepthMax) {
		text := JSON(jsonscan.AppendCompact(nil, trim(value)))
		if _, err := Encode(Projection{Status: OK, Parts: []Part{text}}, "r"); err == nil {
			return text
		}
	}
	return Text(toText(string(value)))
}

// toText is s, with U+FFFD in place of what is no UTF-8.
func toText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// cut shortens a text until it fits, at a character, and says how much is
// missing.
func cut(text string) Text {
	whole := len(text)
	for keep := BytesMax - 200; ; keep -= keep / 4 {
		short := text
		if len(short) > keep {
			for keep > 0 && !utf8.RuneStart(short[keep]) {
				keep--
			}
			short = short[:keep] + "\n[cut: " + strconv.Itoa(whole-keep) + " of " + strconv.Itoa(whole) + " bytes are not shown]"
		}
		if _, err := Encode(Projection{Status: OK, Parts: []Part{Text(short)}}, "r"); err == nil {
			return Text(short)
		}
	}
}

// str is a string of JSON by what it says, surrogates that are alone included.
type str string

// UnmarshalJSON takes a string alone.
func (s *str) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return errShape
	}
	*s = str(saidBy(b))
	return nil
}

// errShape says that a value is not of the shape that was tried.
var errShape = &Refusal{Code: WrongType, At: -1}

// foreignValue is the projection of a shape that is known.
func foreignValue(value []byte) (p Projection, ok bool) {
	value = trim(value)
	if len(value) == 0 || !utf8.Valid(value) || !jsonscan.Valid(value, ArgumentsDepthMax) {
		return p, false
	}
	p.Status = OK
	switch value[0] {
	case '"':
		p.Parts = []Part{Text(saidBy(value))}
		return p, true
	case '[':
		p.Parts, ok = blocks(value)
		return p, ok
	case '{':
		if p, ok = shellResult(value); ok {
			return p, true
		}
		return contentResult(value)
	}
	return p, false
}

// only reports whether an object has no other names than these.
func only(value []byte, names ...string) bool {
	if !jsonscan.Valid(value, sameDepthMax) {
		return false
	}
	for _, m := range members(value) {
		found := false
		for _, n := range names {
			found = found || n == m.name
		}
		if !found {
			return false
		}
	}
	return true
}

// shellResult is what a command printed.
func shellResult(value []byte) (p Projection, ok bool) {
	var r struct {
		Stdout   *str   `json:"stdout"`
		Stderr   *str   `json:"stderr"`
		ExitCode *int64 `json:"exit_code"`
	}
	if !only(value, "stdout", "stderr", "exit_code") || json.Unmarshal(value, &r) != nil || r.Stdout == nil && r.Stderr == nil {
		return p, false
	}
	p.Status = OK
	for _, text := range []*str{r.Stdout, r.Stderr} {
		if text != nil && *text != "" {
			p.Parts = append(p.Parts, Text(*text))
		}
	}
	if r.ExitCode != nil && *r.ExitCode != 0 {
		p.Status = Error
		p.Parts = append(p.Parts, Text("exit code "+strconv.FormatInt(*r.ExitCode, 10)))
	}
	return p, true
}

// contentResult is a message with content: a text, or blocks.
func contentResult(value []byte) (p Projection, ok bool) {
	var r struct {
		Content  json.RawMessage `json:"content"`
		IsError  bool            `json:"is_error"`
		IsError2 bool            `json:"isError"`
	}
	if json.Unmarshal(value, &r) != nil {
		return p, false
	}
	p.Status = OK
	if r.IsError || r.IsError2 {
		p.Status = Error
	}
	switch {
	case len(r.Content) == 0:
		var part Part
		if part, ok = imageNote(value); ok {
			p.Parts = []Part{part}
		}
	case r.Content[0] == '"':
		p.Parts, ok = []Part{Text(saidBy(r.Content))}, true
	case r.Content[0] == '[':
		p.Parts, ok = blocks(r.Content)
	}
	return p, ok
}

// blocks are the parts of a list of content blocks. A list in which none is
// known is a value like any other.
func blocks(list []byte) (parts []Part, ok bool) {
	var raw []json.RawMessage
	if json.Unmarshal(list, &raw) != nil || len(raw) > PartsMax {
		return nil, false
	}
	for _, b := range raw {
		part, known := block(b)
		ok = ok || known
		parts = append(parts, part)
	}
	return parts, ok || len(raw) == 0
}

func block(b []byte) (part Part, known bool) {
	var r struct {
		Type string `json:"type"`
		Text *str   `json:"text"`
	}
	if json.Unmarshal(b, &r) == nil && r.Text != nil && (r.Type == "text" || r.Type == "input_text" || r.Type == "output_text") {
		return Text(*r.Text), true
	}
	if part, ok := imageNote(b); ok {
		return part, true
	}
	return ownBytes(b), false
}

// imageNote is the text in place of an image of another program's: its bytes
// are not an artifact of this store.
func imageNote(b []byte) (Part, bool) {
	var r struct {
		Type      string          `json:"type"`
		Path      *str            `json:"path"`
		Data      *str            `json:"data"`
		MimeType  str             `json:"mimeType"`
		MediaType str             `json:"media_type"`
		Source    json.RawMessage `json:"source"`
		ImageURL  json.RawMessage `json:"image_url"`
		URL       *str            `json:"url"`
	}
	if json.Unmarshal(b, &r) != nil || !strings.Contains(r.Type, "image") {
		return nil, false
	}
	for _, inner := range []json.RawMessage{r.Source, r.ImageURL} {
		switch {
		case len(inner) > 0 && inner[0] == '"':
			s := str(saidBy(inner))
			r.URL = &s
		case len(inner) > 0 && json.Unmarshal(inner, &r) != nil:
			return nil, false
		}
	}
	what := string(r.MimeType + r.MediaType)
	switch {
	case r.Path != nil:
		what = string(*r.Path)
	case r.URL != nil && !strings.HasPrefix(string(*r.URL), "data:"):
		what = string(*r.URL)
	case r.URL != nil:
		what, _, _ = strings.Cut(strings.TrimPrefix(string(*r.URL), "data:"), ";")
	case r.Data == nil:
		return nil, false
	}
	const shownBytesMax = 1 << 10
	if len(what) > shownBytesMax {
		what = toText(what[:shownBytesMax]) + "…"
	}
	return Text("[image " + what + ": not shown, it was not kept by this store]"), true
}

// isNull reports whether a value is absent or null.
func isNull(b []byte) bool { return len(b) == 0 || bytes.Equal(b, []byte("null")) }
