package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/google/uuid"

	"durafs/wal"
)

// FormatVersion is the version of the store's format that this build writes.
// Version 0 makes no promise: it may change without migration.
const FormatVersion = 0

// configBytesMax bounds store.json.
const configBytesMax = 4096

// keyBytes is the length of the store key, the secret behind writer tokens.
const keyBytes = 32

// config is store.json: who the store is. It is written once, as the last step
// of making a store.
type config struct {
	FormatVersion int       `json:"format_version"`
	Store         uuid.UUID `json:"store"`
	Key           hexBytes  `json:"key"`
	CreatedAt     time.Time `json:"created_at"`
	// Reset is what a reset left: nil for a store that never had one.
	Reset *resetMark `json:"reset,omitempty"`
	// CRC32C is of the file's JSON with this field empty: a key with a
	// flipped bit would else silently void every token.
	CRC32C string `json:"crc32c"`
}

// resetMark are the numbers that the store before this one, in the same
// directory, had given: none of them is given again.
type resetMark struct {
	// Emptying: what is in the directories may be the former store's, and goes
	// when the store is opened.
	Emptying bool   `json:"emptying"`
	Segment  uint32 `json:"segment"`
	Pack     uint32 `json:"pack"`
	LSN      uint64 `json:"lsn"`
	Run      uint32 `json:"run"`
	Thread   uint32 `json:"thread"`
	Target   uint32 `json:"target"`
}

// began are the numbers that the log begins behind.
func (c config) began() (h wal.HighWater) {
	if r := c.Reset; r != nil {
		h = wal.HighWater{Segment: r.Segment, Pack: r.Pack, LSN: r.LSN, Numbers: wal.Numbers{Run: r.Run, Thread: r.Thread, Target: r.Target}}
	}
	return h
}

func (c config) emptying() bool { return c.Reset != nil && c.Reset.Emptying }

// hexBytes is written as lower-case hexadecimal digits.
type hexBytes []byte

func (h hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

func newConfig(now time.Time) (config, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return config{}, err
	}
	key := make([]byte, keyBytes)
	rand.Read(key) // never fails, says its documentation
	return config{FormatVersion: FormatVersion, Store: id, Key: key, CreatedAt: now}, nil
}

// encode is the inverse of decodeConfig.
func (c config) encode() ([]byte, error) {
	c.CRC32C = ""
	plain, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	c.CRC32C = fmt.Sprintf("%08x", crc32.Checksum(plain, crc32.MakeTable(crc32.Castagnoli)))
	b, err := json.MarshalIndent(c, "", "  ")
	return append(b, '\n'), err
}

// decodeConfig checks that b is exactly what encode writes. A store of a later
// format is a *FutureError, whatever else its file says.
func decodeConfig(path string, b []byte) (config, error) {
	var version struct {
		FormatVersion *int `json:"format_version"`
	}
	if err := json.Unmarshal(b, &version); err != nil || version.FormatVersion == nil {
		return config{}, &ConfigError{Path: path, Reason: "it is not the JSON object that durafs writes"}
	}
	if *version.FormatVersion > FormatVersion {
		return config{}, &FutureError{Path: path, Version: *version.FormatVersion}
	}
	var c config
	if err := json.Unmarshal(b, &c); err != nil {
		return config{}, &ConfigError{Path: path, Reason: err.Error()}
	}
	again, err := c.encode()
	if err != nil || !bytes.Equal(again, b) || len(c.Key) != keyBytes {
		return config{}, &ConfigError{Path: path, Reason: "its checksum is wrong"}
	}
	return c, nil
}
