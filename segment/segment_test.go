package segment

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func testHeader() Header {
	return Header{
		Kind: LogFile, StoreID: [16]byte{1, 2, 3}, ID: 7, Salt: 0x1122334455667788, Generation: 3,
		Lane: 1, LaneEpoch: 2, Replaces: []uint32{4, 5},
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{
			Kind:       rapid.SampledFrom([]FileKind{LogFile, ManifestFile}).Draw(t, "kind"),
			ID:         rapid.Uint32().Draw(t, "id"),
			Salt:       rapid.Uint64().Draw(t, "salt"),
			Generation: rapid.Uint32().Draw(t, "generation"),
			Lane:       rapid.Uint32().Draw(t, "lane"),
			LaneEpoch:  rapid.Uint64().Draw(t, "lane epoch"),
			Replaces:   rapid.SliceOfN(rapid.Uint32(), 0, ReplacesMax).Draw(t, "replaces"),
		}
		if len(h.Replaces) == 0 {
			h.Replaces = nil
		}
		got, err := ParseHeader(h.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(h, got); d != "" {
			t.Fatal(d)
		}
	})
}

// reseal makes the header's checksum right again.
func reseal(b []byte) []byte {
	c := Checksum(b[:508])
	b[508], b[509], b[510], b[511] = byte(c), byte(c>>8), byte(c>>16), byte(c>>24)
	return b
}

func TestHeaderErrors(t *testing.T) {
	h := testHeader()
	change := func(off int, v byte) []byte {
		b := h.Marshal()
		b[off] ^= v
		return b
	}
	var future *FutureVersionError
	var invalid *InvalidError
	for name, c := range map[string]struct {
		b    []byte
		want func(error) bool
	}{
		"short":             {h.Marshal()[:4095], func(err error) bool { return errors.As(err, &invalid) }},
		"magic":             {change(0, 1), func(err error) bool { return errors.As(err, &invalid) }},
		"version, rotten":   {change(8, 1), func(err error) bool { return errors.As(err, &invalid) }},
		"version, later":    {reseal(change(8, 1)), func(err error) bool { return errors.As(err, &future) && future.Version == 1 }},
		"flag":              {reseal(change(16, 4)), func(err error) bool { return errors.Is(err, ErrUnknownFlag) }},
		"kind":              {reseal(change(12, 8)), func(err error) bool { return errors.Is(err, ErrUnknownFlag) }},
		"replaces too many": {reseal(change(65, 1)), func(err error) bool { return errors.As(err, &invalid) }},
		"reserved":          {reseal(change(14, 1)), func(err error) bool { return errors.As(err, &invalid) }},
		"behind the fields": {change(600, 1), func(err error) bool { return errors.As(err, &invalid) }},
	} {
		if _, err := ParseHeader(c.b); !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every single bit of the fields counts.
func TestHeaderBitFlips(t *testing.T) {
	h := testHeader()
	b := h.Marshal()
	for i := range headerFieldBytes * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, err := ParseHeader(b); err == nil {
			t.Errorf("bit %d of byte %d flipped, and the header parses", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func testFrame(key Key, off int64, payload string) []byte {
	h := FrameHeader{Kind: Batch, LSN: 5, Durable: 4, Run: 9, Count: 2, Prev: 77}
	return AppendFrame(nil, &h, key, off, []byte(payload))
}

// Every single bit of a frame counts, in each of its fields and in the zeros
// behind it; so do another place and another salt.
func TestFrameBitFlips(t *testing.T) {
	key := NewKey(42)
	const off = 4096 + 64
	b := testFrame(key, off, "hello")
	check := func(b []byte, key Key, off int64) error {
		h, err := DecodeFrameHeader(b, key, off)
		if err == nil {
			_, err = h.CheckPayload(b, off)
		}
		return err
	}
	if err := check(b, key, off); err != nil {
		t.Fatal(err)
	}
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		var invalid *InvalidError
		if err := check(b, key, off); !errors.As(err, &invalid) {
			t.Errorf("bit %d of byte %d flipped: %v", i%8, i/8, err)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	for _, other := range []int64{off + 8, off - 8, off + 4096, off << 1, off + 1<<32} {
		if check(b, key, other) == nil {
			t.Errorf("the frame checks at offset %d too", other)
		}
	}
	if check(b, NewKey(43), off) == nil {
		t.Error("the frame checks under another salt")
	}
}

func TestFrameFromLaterVersion(t *testing.T) {
	key := NewKey(1)
	for _, at := range []int{12, 13, 14, 15} {
		b := testFrame(key, 4096, "x")
		b[at] ^= 0x40
		h := key.sum(4096, b)
		b[0], b[1], b[2], b[3] = byte(h), byte(h>>8), byte(h>>16), byte(h>>24)
		if _, err := DecodeFrameHeader(b, key, 4096); !errors.Is(err, ErrUnknownFlag) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

func TestFrameLengthBound(t *testing.T) {
	key := NewKey(1)
	h := FrameHeader{Kind: Batch, LSN: 1, PayloadLen: PayloadBytesMax + 1, Count: 1}
	b := make([]byte, FrameHeaderBytes)
	h.Encode(b, key, 4096)
	var invalid *InvalidError
	if _, err := DecodeFrameHeader(b, key, 4096); !errors.As(err, &invalid) {
		t.Fatal(err)
	}
}

// file is a file with frames of the given payloads, and where each begins.
func file(key Key, size int, payloads ...[]byte) (b []byte, offs []int64) {
	b = make([]byte, HeaderBytes, max(HeaderBytes, size))
	var prev uint32
	for i, p := range payloads {
		h := FrameHeader{Kind: Batch, LSN: uint64(i + 1), Durable: uint64(max(0, i-1)), Count: 1, Prev: prev}
		offs = append(offs, int64(len(b)))
		b = AppendFrame(b, &h, key, int64(len(b)), p)
		prev = h.CRC
	}
	return append(b, make([]byte, max(0, size-len(b)))...), offs
}

func walker(b []byte, key Key) *Walker {
	return NewWalker(bytes.NewReader(b).ReadAt, key, HeaderBytes, int64(len(b)), 0)
}

// What was appended is walked, across windows, up to the largest payload.
func TestWalk(t *testing.T) {
	key := NewKey(5)
	var payloads [][]byte
	for _, n := range []int{0, 1, 7, 8, 9, PayloadBytesMax, 100, PayloadBytesMax, PayloadBytesMax - 1, 3} {
		payloads = append(payloads, bytes.Repeat([]byte{byte(n)}, n))
	}
	b, offs := file(key, 5<<20, payloads...)
	w := walker(b, key)
	for i, p := range payloads {
		f, err := w.Next()
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if f.Offset != offs[i] || !bytes.Equal(f.Payload, p) || f.LSN != uint64(i+1) {
			t.Fatalf("frame %d: at %d, LSN %d, %d bytes", i, f.Offset, f.LSN, len(f.Payload))
		}
	}
	var invalid *InvalidError
	if _, err := w.Next(); !errors.As(err, &invalid) || invalid.Reason != ReasonZeros {
		t.Fatal(err)
	}
	if _, found, err := w.Claims(); found || err != nil {
		t.Fatal(found, err)
	}
}

func TestWalkEnd(t *testing.T) {
	key := NewKey(5)
	b, _ := file(key, 0, []byte("a"), []byte("b"))
	w := walker(b, key)
	for range 2 {
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// The largest durable behind the damage counts, not the first: a later frame
// of the damaged group may stand before those that vouch for it.
func TestClaims(t *testing.T) {
	key := NewKey(5)
	b, offs := file(key, 16<<10, []byte("1"), []byte("2"), []byte("3"), []byte("4"), bytes.Repeat([]byte("5"), 3000), []byte("6"))
	for damaged := range 6 {
		for _, at := range []int64{0, 8, FrameHeaderBytes} { // header, length, payload
			c := bytes.Clone(b)
			c[offs[damaged]+at] ^= 0x10
			w := walker(c, key)
			for range damaged {
				if _, err := w.Next(); err != nil {
					t.Fatal(err)
				}
			}
			var invalid *InvalidError
			if _, err := w.Next(); !errors.As(err, &invalid) || invalid.Offset != offs[damaged] {
				t.Fatalf("frame %d damaged: %v", damaged, err)
			}
			want, wantFound := uint64(4), damaged < 5
			if !wantFound {
				want = 0
				if at == FrameHeaderBytes {
					want, wantFound = 4, true // its own header still checks
				}
			}
			if got, found, err := w.Claims(); got != want || found != wantFound || err != nil {
				t.Fatalf("frame %d damaged at %d: claims %d, %v, %v", damaged, at, got, found, err)
			}
		}
	}
}

func TestResync(t *testing.T) {
	key := NewKey(5)
	b, offs := file(key, 16<<10, []byte("1"), []byte("2"), []byte("3"), []byte("4"))
	b[offs[1]] ^= 1
	w := walker(b, key)
	if _, err := w.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(); err == nil {
		t.Fatal("a damaged frame is taken")
	}
	if found, err := w.Resync(); !found || err != nil {
		t.Fatal(found, err)
	}
	for lsn := uint64(3); lsn <= 4; lsn++ {
		if f, err := w.Next(); err != nil || f.LSN != lsn {
			t.Fatal(f.LSN, err)
		}
	}
}

func TestWalkFollows(t *testing.T) {
	key := NewKey(5)
	first := FrameHeader{Kind: Batch, LSN: 1, Count: 1}
	for name, second := range map[string]FrameHeader{
		"prev":                   {Kind: Batch, LSN: 2, Count: 1, Prev: 1},
		"LSN again":              {Kind: Batch, LSN: 1, Count: 1},
		"LSN ahead":              {Kind: Batch, LSN: 3, Count: 1},
		"no count, LSN ahead":    {Kind: Barrier, LSN: 2},
		"vouches for itself":     {Kind: Batch, LSN: 2, Durable: 2, Count: 1},
		"barrier beyond its LSN": {Kind: Barrier, LSN: 1, Durable: 2},
		"barrier with a count":   {Kind: Barrier, LSN: 2, Count: 1},
		"batch without a count":  {Kind: Batch, LSN: 1},
	} {
		b := AppendFrame(make([]byte, HeaderBytes), &first, key, HeaderBytes, []byte("x"))
		if second.Prev == 0 {
			second.Prev = first.CRC
		}
		b = AppendFrame(b, &second, key, int64(len(b)), nil)
		w := walker(b, key)
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
		var invalid *InvalidError
		if _, err := w.Next(); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error of reading is not the end of what is there.
func TestWalkReadError(t *testing.T) {
	broken := errors.New("broken")
	w := NewWalker(func([]byte, int64) (int, error) { return 0, broken }, NewKey(1), HeaderBytes, 1<<20, 0)
	if _, err := w.Next(); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, _, err := w.Claims(); !errors.Is(err, broken) {
		t.Fatal(err)
	}
}

// What parses marshals to the same bytes.
func FuzzHeader(f *testing.F) {
	h := testHeader()
	f.Add(h.Marshal())
	f.Add((&Header{Kind: ManifestFile}).Marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, resealed(b)} {
			h, err := ParseHeader(b)
			if err != nil {
				continue
			}
			if !bytes.Equal(h.Marshal(), b[:HeaderBytes]) {
				t.Fatalf("%+v marshals to other bytes", h)
			}
		}
	})
}

func resealed(b []byte) []byte {
	if len(b) < HeaderBytes {
		return b
	}
	return reseal(bytes.Clone(b))
}

// What parses as a frame is appended as the same bytes; with a right checksum
// too, which a fuzzer does not find by itself.
func FuzzFrame(f *testing.F) {
	key := NewKey(99)
	f.Add(testFrame(key, 4096, ""), int64(4096))
	f.Add(testFrame(key, 4104, "hello, frame"), int64(4104))
	f.Fuzz(func(t *testing.T, b []byte, off int64) {
		frames := [][]byte{b}
		if len(b) >= FrameHeaderBytes {
			c := bytes.Clone(b)
			s := key.sum(off, c)
			c[0], c[1], c[2], c[3] = byte(s), byte(s>>8), byte(s>>16), byte(s>>24)
			frames = append(frames, c)
		}
		for _, b := range frames {
			h, err := DecodeFrameHeader(b, key, off)
			if err != nil {
				continue
			}
			payload, err := h.CheckPayload(b, off)
			if err != nil {
				continue
			}
			again := h
			if got := AppendFrame(nil, &again, key, off, payload); !bytes.Equal(got, b[:h.Bytes()]) || again != h {
				t.Fatalf("%+v is appended as other bytes", h)
			}
		}
	})
}

// Any bytes can be walked, searched and resynchronised.
func FuzzWalk(f *testing.F) {
	key := NewKey(5)
	b, offs := file(key, 9<<10, []byte("1"), []byte("two"), []byte("3"))
	f.Add(b, 0, byte(0))
	f.Add(b, int(offs[1]), byte(1))
	f.Add(b, int(offs[1])+9, byte(0xff))
	f.Fuzz(func(t *testing.T, b []byte, at int, flip byte) {
		if at >= 0 && at < len(b) {
			b = bytes.Clone(b)
			b[at] ^= flip
		}
		w := walker(b, key)
		for {
			before := w.Offset()
			if _, err := w.Next(); err == nil {
				if w.Offset() <= before {
					t.Fatal("the walk does not move on")
				}
				continue
			}
			if found, _ := w.Resync(); !found {
				break
			}
			if w.Offset() <= before {
				t.Fatal("resync goes back")
			}
		}
		walker(b, key).Claims()
	})
}
