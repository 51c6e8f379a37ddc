package runs

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object of names and values, in this order; what is empty
// (nil, "") is left out.
func object(pairs ...any) []byte {
	b := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if v := pairs[i+1]; v == nil || v == "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, mustJSON(pairs[i])...), ':')
		b = append(b, mustJSON(pairs[i+1])...)
	}
	return append(b, '}')
}

// ownRow is a row of the store's own.
func ownRow(num uint32, pairs ...any) entry {
	return (&row{flags: rowByStore, text: object(pairs...)}).entry(num)
}

func mustJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("runs: a value that has no JSON: " + err.Error()) // plain fields only
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
