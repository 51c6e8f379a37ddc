package cas

const (
	bloomBlockBytes = 64 // one cache line
	bloomBits       = 10 // for each mark, which gives 1 % of false hits
	bloomProbes     = 6
)

// bloom is a filter over marks of ids: what it does not have was not added. All
// probes of a mark fall into one block.
type bloom []byte

// bloomBytes is the size of a filter for n marks.
func bloomBytes(n int) int {
	return (n*bloomBits/8/bloomBlockBytes + 1) * bloomBlockBytes
}

func (f bloom) add(mark uint64) {
	f.probe(mark, func(b *byte, bit byte) bool { *b |= bit; return true })
}

func (f bloom) has(mark uint64) bool {
	return f.probe(mark, func(b *byte, bit byte) bool { return *b&bit != 0 })
}

// probe visits the bits of a mark until visit says no.
func (f bloom) probe(mark uint64, visit func(b *byte, bit byte) bool) bool {
	// A mark is of a cryptographic hash: its halves are as good as two hashes.
	block := mark >> 32 * uint64(len(f)/bloomBlockBytes) >> 32 * bloomBlockBytes
	at := uint32(mark)
	for range bloomProbes {
		at = at*0x9e3779b1 + 0x7f4a7c15
		bit := at >> 23 // of 512
		if !visit(&f[block+uint64(bit/8)], 1<<(bit%8)) {
			return false
		}
	}
	return true
}
