package jsonscan

import (
	"unicode/utf16"
	"unicode/utf8"
)

// What a string says is held as WTF-8: UTF-8, in which besides a surrogate that
// is alone (which JSON can spell and UTF-8 cannot) has its three bytes. Every
// string of JSON has exactly one such form.
//
// The canonical spelling of a string is the one that JSON.stringify prints, and
// RFC 8785: \" \\ \b \f \n \r \t, \u00xx for the other control characters,
// \udxxx for a surrogate that is alone, all in lower case; every other
// character stands for itself.

// AppendSaid appends what a string says, given its valid literal.
func AppendSaid(dst, literal []byte) []byte {
	at := 1
	for {
		stop := Plain(literal, at)
		dst = append(dst, literal[at:stop]...)
		if literal[stop] == '"' {
			return dst
		}
		r, n := escape(literal, stop)
		dst = appendRune(dst, r)
		at = stop + n
	}
}

// AppendLiteral appends the canonical spelling of a string, given what it says.
// Bytes that are not WTF-8 are passed through; the result is then no JSON.
func AppendLiteral(dst []byte, said string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(said); i++ {
		c := said[i]
		switch {
		case plain[c] && c != surrogateLead:
			continue
		case c != surrogateLead:
			dst = appendSpelled(append(dst, said[from:i]...), rune(c))
			from = i + 1
		case i+2 < len(said) && said[i+1] >= 0xa0 && said[i+1] < 0xc0 && said[i+2]&0xc0 == 0x80:
			r := rune(c&0x0f)<<12 | rune(said[i+1]&0x3f)<<6 | rune(said[i+2]&0x3f)
			dst = appendSpelled(append(dst, said[from:i]...), r)
			from = i + 3
			i += 2
		}
	}
	dst = append(dst, said[from:]...)
	return append(dst, '"')
}

// surrogateLead is the first byte of the three of a surrogate, and of some
// other characters.
const surrogateLead = 0xed

// Canonical is the length of the canonical spelling of a valid literal, and
// whether the literal is spelled so.
func Canonical(literal []byte) (size int, same bool) {
	size, same = len(literal), true
	var buf [utf8.UTFMax + 2]byte
	for at := 1; ; {
		at = Plain(literal, at)
		if literal[at] == '"' {
			return size, same
		}
		if short(literal[at+1]) {
			at += 2
			continue
		}
		r, n := escape(literal, at)
		spelled := appendSpelled(buf[:0], r)
		if string(spelled) != string(literal[at:at+n]) {
			same = false
			size += len(spelled) - n
		}
		at += n
	}
}

// AppendCanonical appends the canonical spelling of a valid literal.
func AppendCanonical(dst, literal []byte) []byte {
	from := 0
	for at := 1; ; {
		at = Plain(literal, at)
		if literal[at] == '"' {
			return append(dst, literal[from:at+1]...)
		}
		if short(literal[at+1]) {
			at += 2
			continue
		}
		r, n := escape(literal, at)
		dst = appendSpelled(append(dst, literal[from:at]...), r)
		at += n
		from = at
	}
}

// short reports whether \c is a canonical escape of two bytes.
func short(c byte) bool {
	switch c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

// escape is what the valid escape at at says, and its length: both halves of a
// surrogate pair are one.
func escape(src []byte, at int) (r rune, n int) {
	switch src[at+1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(src[at+1]), 2
	}
	r, _ = hex4(src, at+2)
	if utf16.IsSurrogate(r) && at+12 <= len(src) && src[at+6] == '\\' && src[at+7] == 'u' {
		low, _ := hex4(src, at+8)
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			return both, 12
		}
	}
	return r, 6
}

// hex4 is the number that four hexadecimal digits at at say.
func hex4(src []byte, at int) (r rune, ok bool) {
	if at+4 > len(src) {
		return 0, false
	}
	for _, c := range src[at : at+4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// appendRune appends a character, a surrogate too, as WTF-8.
func appendRune(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, surrogateLead, 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return utf8.AppendRune(dst, r)
}

// appendSpelled appends a character in its canonical spelling.
func appendSpelled(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if r >= 0x20 && !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r)
	}
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// AppendCompact appends a valid text without the blanks between its tokens.
func AppendCompact(dst, src []byte) []byte {
	from := 0
	for at := 0; at < len(src); {
		switch src[at] {
		case '"':
			at, _ = String(src, at)
		case ' ', '\t', '\n', '\r':
			dst = append(dst, src[from:at]...)
			at = Blank(src, at)
			from = at
		default:
			at++
		}
	}
	return append(dst, src[from:]...)
}
