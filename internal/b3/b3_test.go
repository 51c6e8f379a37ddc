package b3

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zeebo/blake3"
)

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

// Every length up to a few pieces, around all boundaries of leaves and lanes.
func TestSum(t *testing.T) {
	data := noise(pieceBytes + 3*leafBytes)
	for n := 0; n <= len(data); n++ {
		if n > 3*leafBytes && n%leafBytes > 2 && n%leafBytes < leafBytes-2 && n%61 != 0 {
			continue
		}
		if got, want := Sum256(data[:n]), blake3.Sum256(data[:n]); got != want {
			t.Fatalf("%d bytes: %x, not %x", n, got, want)
		}
	}
}

// Streams of any length, written in parts of any length, summed at any time.
func TestHasher(t *testing.T) {
	data := noise(70 * pieceBytes)
	r := rand.New(rand.NewPCG(1, 2))
	lengths := []int{0, 1, leafBytes, pieceBytes - 1, pieceBytes, pieceBytes + 1, 2 * pieceBytes, 2*pieceBytes + 1, 3 * pieceBytes, 4 * pieceBytes, 64 * pieceBytes, len(data)}
	for range 200 {
		lengths = append(lengths, r.IntN(9*pieceBytes))
	}
	for _, n := range lengths {
		var h Hasher
		for at := 0; at < n; {
			part := min(n-at, []int{1, 64, 1000, leafBytes, 5000, pieceBytes, pieceBytes + 1, 3 * pieceBytes, 1 << 20}[r.IntN(9)])
			h.Write(data[at : at+part])
			at += part
			if r.IntN(8) == 0 {
				if got, want := h.Sum(), blake3.Sum256(data[:at]); got != want {
					t.Fatalf("after %d of %d bytes: %x, not %x", at, n, got, want)
				}
			}
		}
		if got, want := h.Sum(), blake3.Sum256(data[:n]); got != want {
			t.Fatalf("%d bytes: %x, not %x", n, got, want)
		}
	}
}

// Counters beyond 32 bits: no test hashes 4 TiB, so the kernel is compared with
// the scalar form, and that, where it can be, with the library.
func TestLargeCounter(t *testing.T) {
	data := noise(wideBytes)
	h := iv
	for i := 0; i < leafBytes; i += blockBytes {
		flags := leafFlags[i/blockBytes]
		if i == leafBytes-blockBytes {
			flags |= flagRoot
		}
		compress(&h, (*[blockBytes]byte)(data[i:]), blockBytes, 0, flags)
	}
	if got, want := valueOf(&h), blake3.Sum256(data[:leafBytes]); got != want {
		t.Fatalf("scalar: %x, not %x", got, want)
	}
	for _, counter := range []uint64{0, 1<<32 - 5, 1 << 40} {
		var to [lanes]value
		if wide {
			sixteenLeaves(data, counter, to[:])
		}
		for i := range to {
			if want := leaf(data[i*leafBytes:][:leafBytes], counter+uint64(i)); wide && to[i] != want {
				t.Errorf("leaf %d+%d: %x, not %x", counter, i, to[i], want)
			}
		}
	}
}

func FuzzSum(f *testing.F) {
	f.Add([]byte("abc"), uint32(100_000), uint16(77))
	f.Add([]byte{}, uint32(65_536), uint16(1024))
	f.Fuzz(func(t *testing.T, seed []byte, n uint32, part uint16) {
		data := make([]byte, n%(5*pieceBytes))
		for i := range data {
			data[i] = byte(i) ^ byte(i>>10)
		}
		copy(data, seed)
		var h Hasher
		for p := data; len(p) > 0; {
			k := min(len(p), int(part)+1)
			h.Write(p[:k])
			p = p[k:]
		}
		want := blake3.Sum256(data)
		if h.Sum() != want || Sum256(data) != want {
			t.Errorf("%d bytes in parts of %d", len(data), int(part)+1)
		}
	})
}

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{16 << 10, 20_000, 64 << 10} {
		data := noise(n)
		for name, sum := range map[string]func([]byte) [32]byte{"b3": Sum256, "library": blake3.Sum256} {
			b.Run(fmt.Sprint(n, "/", name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					sum(data)
				}
			})
		}
	}
}

func BenchmarkHasher(b *testing.B) {
	data := noise(512 << 10)
	b.Run("b3", func(b *testing.B) {
		var h Hasher
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			h.Write(data)
		}
	})
	b.Run("library", func(b *testing.B) {
		h := blake3.New()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			h.Write(data)
		}
	})
}
