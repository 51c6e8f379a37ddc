package control

import (
	"bytes"
	"encoding/json"
)

// canonicalRow is what of an agent's row must be equal in the log: its bytes
// without the space around it and the line breaks between its tokens. (Inside
// of a JSON string a line break is always escaped.)
func canonicalRow(row []byte) []byte {
	out := make([]byte, 0, len(row))
	for _, c := range bytes.TrimSpace(row) {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}

// sameRow reports whether a stored line is the row with the canonical bytes
// want: the store puts "seq":N, in front of the first name and keeps every
// other byte.
func sameRow(line, want []byte) bool {
	rest, ok := bytes.CutPrefix(line, rowPrefix)
	if !ok || len(want) == 0 || want[0] != '{' {
		return false
	}
	rest = bytes.TrimLeft(rest, "0123456789")
	rest = bytes.TrimPrefix(rest, []byte(","))
	return bytes.Equal(rest, want[1:])
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
