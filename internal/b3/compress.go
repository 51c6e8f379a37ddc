package b3

import (
	"encoding/binary"
	"math/bits"
)

const (
	leafBytes  = 1 << 10
	blockBytes = 64

	flagStart  = 1
	flagEnd    = 2
	flagParent = 4
	flagRoot   = 8
)

var iv = [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}

// schedule is the order of the message's words in the next round.
var schedule = [16]int{2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8}

// compress takes one block of n bytes into h.
func compress(h *[8]uint32, block *[blockBytes]byte, n int, counter uint64, flags uint32) {
	var m [16]uint32
	for i := range m {
		m[i] = binary.LittleEndian.Uint32(block[4*i:])
	}
	v := [16]uint32{
		h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7],
		iv[0], iv[1], iv[2], iv[3], uint32(counter), uint32(counter >> 32), uint32(n), flags,
	}
	for round := 0; ; round++ {
		quarter(&v, 0, 4, 8, 12, m[0], m[1])
		quarter(&v, 1, 5, 9, 13, m[2], m[3])
		quarter(&v, 2, 6, 10, 14, m[4], m[5])
		quarter(&v, 3, 7, 11, 15, m[6], m[7])
		quarter(&v, 0, 5, 10, 15, m[8], m[9])
		quarter(&v, 1, 6, 11, 12, m[10], m[11])
		quarter(&v, 2, 7, 8, 13, m[12], m[13])
		quarter(&v, 3, 4, 9, 14, m[14], m[15])
		if round == 6 {
			break
		}
		was := m
		for i, from := range schedule {
			m[i] = was[from]
		}
	}
	for i := range h {
		h[i] = v[i] ^ v[i+8]
	}
}

func quarter(v *[16]uint32, a, b, c, d int, x, y uint32) {
	v[a] += v[b] + x
	v[d] = bits.RotateLeft32(v[d]^v[a], -16)
	v[c] += v[d]
	v[b] = bits.RotateLeft32(v[b]^v[c], -12)
	v[a] += v[b] + y
	v[d] = bits.RotateLeft32(v[d]^v[a], -8)
	v[c] += v[d]
	v[b] = bits.RotateLeft32(v[b]^v[c], -7)
}

func valueOf(h *[8]uint32) (c value) {
	for i, w := range h {
		binary.LittleEndian.PutUint32(c[4*i:], w)
	}
	return c
}

// leaf is the value of a leaf of at most 1 KiB, and not of a whole input.
func leaf(p []byte, counter uint64) value {
	h := iv
	flags := uint32(flagStart)
	for {
		var block [blockBytes]byte
		n := copy(block[:], p)
		p = p[n:]
		if len(p) == 0 {
			flags |= flagEnd
		}
		compress(&h, &block, n, counter, flags)
		if flags = 0; len(p) == 0 {
			return valueOf(&h)
		}
	}
}

// parent is the value of the node above two; root has the flag of the tree's
// root, or 0.
func parent(left, right value, root uint32) value {
	var block [blockBytes]byte
	copy(block[:], left[:])
	copy(block[32:], right[:])
	h := iv
	compress(&h, &block, blockBytes, 0, flagParent|root)
	return valueOf(&h)
}
