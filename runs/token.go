package runs

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
)

// What tokens of one epoch are for.
const (
	purposeWriter = "writer"
	purposeResume = "resume"
)

// staleEpochsMax is how many former epochs a token is compared with.
const staleEpochsMax = 1024

// token is the secret that goes with an epoch of a run: HMAC-SHA256, under the
// store's key, of the run's number (never given twice), the epoch and what it
// is for. Nothing of it is stored: whoever has the key can make it again.
func (s *Store) token(num uint32, epoch uint64, purpose string) string {
	mac := hmac.New(sha256.New, s.key)
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], uint64(num))
	binary.LittleEndian.PutUint64(b[8:], epoch)
	mac.Write(b[:])
	mac.Write([]byte(purpose))
	return hex.EncodeToString(mac.Sum(nil))
}

// epochOf tells for which epoch of a run, up to newest, a writer token was
// made, and 0 if for none. Each comparison takes constant time.
func (s *Store) epochOf(num uint32, token string, newest uint64) uint64 {
	return s.epochFor(num, token, newest, purposeWriter)
}

// epochFor is epochOf for tokens of any purpose.
func (s *Store) epochFor(num uint32, token string, newest uint64, purpose string) uint64 {
	if len(token) != hex.EncodedLen(sha256.Size) {
		return 0
	}
	for e := newest; e > 0 && newest-e <= staleEpochsMax; e-- {
		if subtle.ConstantTimeCompare([]byte(token), []byte(s.token(num, e, purpose))) == 1 {
			return e
		}
	}
	return 0
}
