package b3

import "golang.org/x/sys/cpu"

//go:generate sh -c "go run gen.go > b3_amd64.s"

// compress16 hashes 16 inputs of as many 64-byte blocks each, the first at in,
// the others stride bytes behind each other: with a counter for each (low
// words, high words) and flags for each block. It needs AVX-512 F and VL.
//
//go:noescape
func compress16(in *byte, stride, blocks uint64, counter *[2][16]uint32, flags *[16]uint32, out *[16][32]byte)

var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL
