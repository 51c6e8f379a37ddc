package b3

import "unsafe"

const (
	lanes     = 16
	wideBytes = lanes * leafBytes
	// wideBytesMin is the shortest input for which sixteen lanes pay.
	wideBytesMin = 8 << 10
)

var (
	leafFlags   = [16]uint32{0: flagStart, 15: flagEnd}
	parentFlags = [16]uint32{flagParent}
	rootFlags   = [16]uint32{flagParent | flagRoot}
	noCounter   [2][16]uint32
)

// subtree is the value of at most 64 KiB and more than one leaf, the first leaf
// being the counter-th of the whole input; with flagRoot that of a whole input.
func subtree(p []byte, counter uint64, root uint32) value {
	// Values of one level; the kernel writes sixteen, so there is room behind.
	var level [pieceBytes/leafBytes + lanes]value
	n := leaves(p, counter, level[:])
	for n > 2 {
		n = parents(level[:], n, &parentFlags)
	}
	flags := &parentFlags
	if root != 0 {
		flags = &rootFlags
	}
	parents(level[:], n, flags)
	return level[0]
}

// leaves hashes the leaves of p and returns how many there are.
func leaves(p []byte, counter uint64, to []value) (n int) {
	for ; len(p) >= wideBytes; n += lanes {
		sixteenLeaves(p, counter+uint64(n), to[n:])
		p = p[wideBytes:]
	}
	if whole := len(p) / leafBytes; whole > 0 {
		var short [wideBytes]byte // the kernel reads sixteen
		copy(short[:], p[:whole*leafBytes])
		sixteenLeaves(short[:], counter+uint64(n), to[n:])
		p = p[whole*leafBytes:]
		n += whole
	}
	if len(p) > 0 {
		to[n] = leaf(p, counter+uint64(n))
		n++
	}
	return n
}

func sixteenLeaves(p []byte, counter uint64, to []value) {
	_ = p[wideBytes-1]
	var counters [2][16]uint32
	for i := range lanes {
		at := counter + uint64(i)
		counters[0][i], counters[1][i] = uint32(at), uint32(at>>32)
	}
	compress16(&p[0], leafBytes, leafBytes/blockBytes, &counters, &leafFlags, sixteen(to))
}

// parents replaces n values by those of the level above, and returns how many
// these are. One without a neighbour stays as it is.
func parents(level []value, n int, flags *[16]uint32) int {
	odd := level[n-1]
	for i := 0; i < n/2; i += lanes {
		// In place: a parent's two lie at or behind its own place, and are read
		// before it is written.
		compress16(&level[2*i][0], blockBytes, 1, &noCounter, flags, sixteen(level[i:]))
	}
	if n%2 == 1 {
		level[n/2] = odd
	}
	return (n + 1) / 2
}

func sixteen(v []value) *[16][32]byte {
	_ = v[lanes-1]
	return (*[16][32]byte)(unsafe.Pointer(&v[0]))
}
