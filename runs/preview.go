package runs

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/zeebo/blake3"
)

// preview is the row that stands in the log for one that is too large for it:
// the agent's type and time where they are short, and the payload's name.
func preview(sc scanned, name, b3 string) []byte {
	const typeBytesMax, timeBytesMax = 256, 64
	b := []byte("{")
	if n := len(sc.kind); n > 0 && n <= typeBytesMax {
		b = append(append(append(b, `"type":`...), dropBreaks(sc.kind)...), ',')
	}
	if n := len(sc.time); n > 0 && n <= timeBytesMax {
		b = append(append(append(b, `"time":`...), dropBreaks(sc.time)...), ',')
	}
	head, err := json.Marshal(struct {
		Bytes   int    `json:"bytes"`
		B3      string `json:"b3"`
		Payload string `json:"payload"`
		Head    string `json:"head"`
	}{len(sc.text), b3, name, cutText(string(sc.text[:min(len(sc.text), previewHead)]), previewHead)})
	if err != nil {
		panic("runs: a preview that has no JSON: " + err.Error())
	}
	b = append(append(b, `"oversized":`...), head...)
	return append(b, '}')
}

// cutText cuts s to at most n bytes, at a rune.
func cutText(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size > 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}

// hashOf is the hash under which an index finds its parts: 128 bits of BLAKE3.
func hashOf(run uint32, parts ...[]byte) hash16 {
	b := make([]byte, 0, 256)
	b = append(b, byte(run), byte(run>>8), byte(run>>16), byte(run>>24))
	for _, p := range parts {
		b = append(b, p...)
	}
	sum := blake3.Sum256(b)
	return hash16(sum[:16])
}

// bodyHash tells a repeated row from another one under the same key.
func bodyHash(text []byte) hash16 {
	sum := blake3.Sum256(text)
	return hash16(sum[:16])
}
