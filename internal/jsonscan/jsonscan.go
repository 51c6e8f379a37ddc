// Package jsonscan walks JSON text (RFC 8259) without building values.
//
// What agents and tools write is kept byte for byte: numbers of any length, lone
// surrogate escapes, the spelling of strings. A decoder would change all of
// them. So this package only says where a token ends.
//
// Functions take a text and a position and return the position behind the
// token, or -1 where it is malformed or torn. Nothing is allocated. Bytes from
// 0x80 on are passed over: whether the text is UTF-8 is for the caller to check.
package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// Blank is where, from at on, the first byte stands that is no white space.
func Blank(src []byte, at int) int {
	for at < len(src) {
		switch src[at] {
		case ' ', '\t', '\n', '\r':
			at++
		default:
			return at
		}
	}
	return at
}

// String walks the string that begins with the quote at at. escaped says that
// there is an escape in it.
func String(src []byte, at int) (end int, escaped bool) {
	for at++; ; {
		at = Plain(src, at)
		switch {
		case at >= len(src) || src[at] < 0x20:
			return -1, escaped
		case src[at] == '"':
			return at + 1, escaped
		}
		escaped = true
		n := escapeBytes(src[at:])
		if n < 0 {
			return -1, true
		}
		at += n
	}
}

// Plain is where, from at on, the first byte stands that does not stand for
// itself in a string. It looks at eight at a time: most JSON is text.
func Plain(src []byte, at int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; at+8 <= len(src); at += 8 {
		w := binary.LittleEndian.Uint64(src[at:])
		quote, back := w^(ones*'"'), w^(ones*'\\')
		// A byte's high bit is set where it is below 0x20, or zero after the
		// xor: borrows reach only bytes above one that is found.
		found := ((w - ones*0x20) &^ w) | ((quote - ones) &^ quote) | ((back - ones) &^ back)
		if found &= highs; found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(src) && plain[src[at]] {
		at++
	}
	return at
}

// plain are the bytes that stand for themselves in a string.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

// escapeBytes is the length of the escape that src begins with, or -1.
func escapeBytes(src []byte) int {
	if len(src) < 2 {
		return -1
	}
	switch src[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(src, 2); ok {
			return 6
		}
	}
	return -1
}

// Number walks a number.
func Number(src []byte, at int) int {
	if at < len(src) && src[at] == '-' {
		at++
	}
	if at < len(src) && src[at] == '0' {
		at++
	} else if at = digits(src, at); at < 0 {
		return -1
	}
	if at < len(src) && src[at] == '.' {
		if at = digits(src, at+1); at < 0 {
			return -1
		}
	}
	if at < len(src) && src[at]|0x20 == 'e' {
		at++
		if at < len(src) && (src[at] == '+' || src[at] == '-') {
			at++
		}
		return digits(src, at)
	}
	return at
}

// digits walks at least one digit.
func digits(src []byte, at int) int {
	from := at
	for at < len(src) && '0' <= src[at] && src[at] <= '9' {
		at++
	}
	if at == from {
		return -1
	}
	return at
}

// Word walks true, false or null.
func Word(src []byte, at int) int {
	for _, w := range [...]string{"true", "false", "null"} {
		if len(src)-at >= len(w) && string(src[at:at+len(w)]) == w {
			return at + len(w)
		}
	}
	return -1
}

// Value walks one value that nests at most depthMax deep, a scalar being 1, and
// begins at at: blanks before it are the caller's.
func Value(src []byte, at, depthMax int) int {
	if at >= len(src) || depthMax < 1 {
		return -1
	}
	switch c := src[at]; {
	case c == '{' || c == '[':
		return container(src, at, depthMax)
	case c == '"':
		end, _ := String(src, at)
		return end
	case c == '-' || '0' <= c && c <= '9':
		return Number(src, at)
	}
	return Word(src, at)
}

// container walks an array or an object.
func container(src []byte, at, depthMax int) int {
	object := src[at] == '{'
	end := src[at] + 2 // ']' behind '[', '}' behind '{'
	if at = Blank(src, at+1); at < len(src) && src[at] == end {
		return at + 1
	}
	for {
		if object {
			if at = Name(src, at); at < 0 {
				return -1
			}
		}
		if at = Value(src, at, depthMax-1); at < 0 {
			return -1
		}
		at = Blank(src, at)
		switch {
		case at >= len(src):
			return -1
		case src[at] == end:
			return at + 1
		case src[at] != ',':
			return -1
		}
		at = Blank(src, at+1)
	}
}

// Name walks a member's name, its colon, and the blanks behind it.
func Name(src []byte, at int) int {
	if at >= len(src) || src[at] != '"' {
		return -1
	}
	at, _ = String(src, at)
	if at < 0 {
		return -1
	}
	if at = Blank(src, at); at >= len(src) || src[at] != ':' {
		return -1
	}
	return Blank(src, at+1)
}

// Valid reports whether src is exactly one value of at most this depth, and
// blanks around it.
func Valid(src []byte, depthMax int) bool {
	end := Value(src, Blank(src, 0), depthMax)
	return end >= 0 && Blank(src, end) == len(src)
}
