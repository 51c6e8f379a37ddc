package term

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe makes text of unknown origin fit for a terminal: control characters
// and the marks that reorder text are written as escapes (\n, \x1b, \u202e),
// and bytes that are not UTF-8 as \xNN. Tabs stay. What it returns has no line
// breaks.
func Safe(s string) string {
	if !needsEscape(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		writeSafe(&b, r, s[:size])
		s = s[size:]
	}
	return b.String()
}

// Cut shortens s to at most width runes; a cut one ends with an ellipsis.
func Cut(s string, width int) string {
	if width < 1 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:width-1]) + "…"
}

func needsEscape(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	return strings.ContainsFunc(s, unsafeRune)
}

// unsafeRune reports whether a terminal could take r for anything but a
// character to draw: C0, C1 and the format characters, among them those that
// change the direction of text.
func unsafeRune(r rune) bool {
	return r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029')
}

func writeSafe(b *strings.Builder, r rune, raw string) {
	const hex = "0123456789abcdef"
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		b.WriteString(`\x`)
		b.WriteByte(hex[raw[0]>>4])
		b.WriteByte(hex[raw[0]&15])
	case !unsafeRune(r):
		b.WriteString(raw)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r < 0x100:
		b.WriteString(`\x`)
		b.WriteByte(hex[r>>4&15])
		b.WriteByte(hex[r&15])
	default:
		b.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			b.WriteByte(hex[r>>shift&15])
		}
	}
}
