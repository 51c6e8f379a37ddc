package control

import (
	"bytes"
	"encoding/hex"
	"encoding/json"

	"github.com/zeebo/blake3"
)

// canonicalRow is a row as the store keeps it: without the line breaks between
// its tokens. (Inside of a JSON string a line break is always escaped.)
func canonicalRow(row []byte) []byte {
	out := make([]byte, 0, len(row)+1)
	for _, c := range row {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}

// sameRow reports whether a stored line is the row with the canonical bytes
// want: the store puts "seq":N in front of the first name and keeps every
// other byte. Of a row too large for the log it keeps the hash there.
func sameRow(line, want []byte) bool {
	before, rest, ok := bytes.Cut(line, rowPrefix)
	if !ok {
		return false
	}
	rest = bytes.TrimLeft(rest, "0123456789")
	rest = bytes.TrimPrefix(rest, []byte(","))
	n := len(before)
	if len(want) == n+1+len(rest) && bytes.Equal(want[:n], before) && bytes.Equal(want[n+1:], rest) {
		return true
	}
	return len(want) > rowTextBytesMax && sameLargeRow(line, want)
}

// rowTextBytesMax is the largest row that stands in the log itself.
const rowTextBytesMax = 64 << 10

// sameLargeRow compares by the hash in the preview that the log has of a large
// row.
func sameLargeRow(line, want []byte) bool {
	var v struct {
		Oversized struct {
			Bytes int    `json:"bytes"`
			B3    string `json:"b3"`
		} `json:"oversized"`
	}
	if json.Unmarshal(line, &v) != nil || v.Oversized.Bytes != len(want) {
		return false
	}
	sum := blake3.Sum256(want)
	return v.Oversized.B3 == hex.EncodeToString(sum[:])
}

// byStore reports whether a stored line is one of the store's own rows.
func byStore(line []byte) bool {
	if !bytes.Contains(line, []byte(`"by"`)) {
		return false
	}
	var v struct {
		By string `json:"by"`
	}
	return json.Unmarshal(line, &v) == nil && v.By == "store"
}
