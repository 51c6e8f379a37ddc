package projection

import "encoding/base64"

// Base64 has to be canonical: the standard alphabet, padding, no bits behind
// the last byte, nothing between. Then an image has one encoding.

// sextet is the value of each digit of base64, 0xff for what is none.
var sextet = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = byte(i)
	}
	return t
}()

// canonical64 reports whether b is canonical base64 of at least one byte. It
// allocates nothing.
func canonical64(b []byte) bool {
	if len(b) == 0 || len(b)%4 != 0 {
		return false
	}
	body, last := b[:len(b)-4], b[len(b)-4:]
	bad := byte(0)
	for len(body) >= 8 {
		bad |= sextet[body[0]] | sextet[body[1]] | sextet[body[2]] | sextet[body[3]] |
			sextet[body[4]] | sextet[body[5]] | sextet[body[6]] | sextet[body[7]]
		body = body[8:]
	}
	for _, c := range body {
		bad |= sextet[c]
	}
	bad |= sextet[last[0]] | sextet[last[1]]
	stray := byte(0)
	switch {
	case last[2] == '=' && last[3] == '=':
		stray = sextet[last[1]] & 0x0f
	case last[3] == '=':
		bad |= sextet[last[2]]
		stray = sextet[last[2]] & 0x03
	default:
		bad |= sextet[last[2]] | sextet[last[3]]
	}
	return bad < 64 && stray == 0
}

// decodedBytes is how many bytes canonical base64 encodes.
func decodedBytes(b []byte) int {
	n := len(b) / 4 * 3
	for i := len(b) - 1; i >= len(b)-2 && b[i] == '='; i-- {
		n--
	}
	return n
}

// decode64 decodes canonical base64.
func decode64(b []byte) []byte {
	out := make([]byte, decodedBytes(b))
	if n, err := base64.StdEncoding.Decode(out, b); err != nil || n != len(out) {
		panic("projection: base64 that was checked does not decode")
	}
	return out
}

// head64 decodes an image's first bytes into buf.
func head64(buf *[HeadBytes]byte, b []byte) []byte {
	b = b[:min(len(b), HeadBytes/3*4)]
	n, _ := base64.StdEncoding.Decode(buf[:], b) // it was checked
	return buf[:n]
}

func append64(dst, b []byte) []byte { return base64.StdEncoding.AppendEncode(dst, b) }
