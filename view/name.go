package view

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names of payloads are the agents' choice: any UTF-8 without control
// characters and slashes. EscapeName makes of one a name that every path can
// hold and every terminal can show; UnescapeName is its inverse.
//
// Escaped, as % and two upper-case hexadecimal digits for each byte, are the
// per cent sign itself, what a path cannot hold ("/", NUL, and "." and ".."
// as a whole), bytes that are not UTF-8, and what would deceive or drive a
// terminal: control and format characters (among them those that turn the
// direction of writing), line and paragraph separators.
//
//	report.pdf   report.pdf
//	100 %.txt    100 %25.txt
//	..           %2E%2E
func EscapeName(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	if strings.IndexFunc(name, escaped) < 0 && utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if escaped(r) || r == utf8.RuneError && n == 1 {
			for _, c := range []byte(name[i : i+n]) {
				b.WriteByte('%')
				b.WriteByte(hexDigits[c>>4])
				b.WriteByte(hexDigits[c&15])
			}
		} else {
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	return b.String()
}

const hexDigits = "0123456789ABCDEF"

func escaped(r rune) bool {
	return r == '%' || r == '/' || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// UnescapeName is the inverse of EscapeName. It takes only what EscapeName
// gives: each payload has one name.
func UnescapeName(s string) (string, bool) {
	name := s
	if strings.Contains(s, "%") {
		b := make([]byte, 0, len(s))
		for i := 0; i < len(s); i++ {
			if s[i] != '%' {
				b = append(b, s[i])
				continue
			}
			if i+2 >= len(s) {
				return "", false
			}
			c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			b = append(b, byte(c))
			i += 2
		}
		name = string(b)
	}
	return name, name != "" && EscapeName(name) == s
}

// A name whose escaped form is longer than NameBytesMax is shown by its
// ordinal instead: %payload-17. No escaped name looks like that, since two
// hexadecimal digits follow every per cent sign.
const ordinalPrefix = "%payload-"

func payloadName(name string, ordinal uint32) string {
	if s := EscapeName(name); len(s) <= NameBytesMax {
		return s
	}
	return ordinalPrefix + strconv.FormatUint(uint64(ordinal), 10)
}

// parseOrdinal is the inverse of payloadName for names shown by ordinal.
func parseOrdinal(s string) (uint32, bool) {
	digits, ok := strings.CutPrefix(s, ordinalPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && strconv.FormatUint(n, 10) == digits
}
