//go:build !amd64

package b3

const wide = false

func compress16(in *byte, stride, blocks uint64, counter *[2][16]uint32, flags *[16]uint32, out *[16][32]byte) {
	panic("b3: no AVX-512")
}
