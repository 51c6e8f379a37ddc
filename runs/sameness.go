package runs

import (
	"bytes"
	"encoding/json"
)

// sameness is equal for JSON texts that say the same: blanks, the order of
// names and the spelling of strings do not count, the digits of a number do. It
// is not JSON's to say that 1 and 1.0 are one outcome.
func sameness(text []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", err
	}
	return hexB3(mustJSON(v))[:32], nil // maps are encoded in the order of their names
}
