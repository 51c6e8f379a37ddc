// Package b3 is BLAKE3 for what the chunk store hashes most: chunks of 64 KiB,
// and streams made of them.
//
// BLAKE3 is a binary tree over leaves of 1 KiB, so that many leaves can be
// hashed side by side. The library that this package stands before does eight
// at a time (AVX2); where a processor has AVX-512, sixteen fit, with rotation
// as one instruction: two to three times as fast (docs/decisions/0004). Each
// payload byte is hashed three times on its way in, for its chunk, for the
// payload, and for the pack, which makes that the largest part of a put.
//
// Without AVX-512 everything is the library's. Which of the two ran can not be
// told from a result: tests compare them at every length that matters.
package b3

import "github.com/zeebo/blake3"

// pieceBytes is what is hashed as one subtree: 64 leaves.
const pieceBytes = 64 << 10

// value is the hash of a subtree (a "chaining value"), or of a whole tree.
type value [32]byte

// Sum256 is the BLAKE3 of p.
func Sum256(p []byte) [32]byte {
	if !wide || len(p) < wideBytesMin || len(p) > pieceBytes {
		return blake3.Sum256(p)
	}
	return subtree(p, 0, flagRoot)
}
