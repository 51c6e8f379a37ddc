package cas

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/zeebo/blake3"
)

// ID is the BLAKE3 (256 bit) of a payload's or chunk's bytes. Its text form is
// 64 lower-case hexadecimal digits, as b3sum prints it.
type ID [32]byte

// EmptyID is the id of the empty payload, which is stored nowhere.
var EmptyID = ID{
	0xaf, 0x13, 0x49, 0xb9, 0xf5, 0xf9, 0xa1, 0xa6, 0xa0, 0x40, 0x4d, 0xea, 0x36, 0xdc, 0xc9, 0x49,
	0x9b, 0xcb, 0x25, 0xc9, 0xad, 0xc1, 0x12, 0xb7, 0xcc, 0x9a, 0x93, 0xca, 0xe4, 0x1f, 0x32, 0x62,
}

// Sum is the id of p.
func Sum(p []byte) ID { return blake3.Sum256(p) }

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText is the inverse of UnmarshalText.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText takes exactly the form of String.
func (id *ID) UnmarshalText(b []byte) error {
	parsed, err := ParseID(string(b))
	if err == nil {
		*id = parsed
	}
	return err
}

// ParseID is the inverse of ID.String; any other spelling is an error.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("cas: an id has 64 hexadecimal digits, not %d bytes", len(s))
	}
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return ID{}, errors.New("cas: an id is written in lower-case hexadecimal digits")
		}
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err
}
