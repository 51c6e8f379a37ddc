package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func testFooter() Footer {
	f := Footer{
		Header: Header{Kind: LogFile, StoreID: [16]byte{1, 2, 3}, ID: 7, Salt: 0x1122334455667788, Generation: 3, Replaces: []uint32{4, 5}},
		End:    5000, First: 10, Last: 12,
		Sections: []Section{{Kind: 1, CRC: 9, Offset: 8192, Bytes: 100}, {Kind: 77, CRC: 8, Offset: 12288, Bytes: 5000}, {Kind: 3, Offset: 20480}},
	}
	f.Size = 20480 + FooterBytes
	return f
}

func TestFooterRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Footer{
			Header: Header{
				Kind: LogFile, ID: rapid.Uint32().Draw(t, "id"), Salt: rapid.Uint64().Draw(t, "salt"),
				Generation: rapid.Uint32().Draw(t, "generation"), Lane: rapid.Uint32().Draw(t, "lane"), LaneEpoch: rapid.Uint64().Draw(t, "epoch"),
				Replaces: rapid.SliceOfN(rapid.Uint32(), 1, ReplacesMax).Draw(t, "replaces"),
			},
			End:   HeaderBytes + rapid.Int64Range(0, 1<<31).Draw(t, "end"),
			First: 1, Last: rapid.Uint64Range(0, 1<<60).Draw(t, "last"),
		}
		at := SectionsOffset(f.End)
		for range rapid.IntRange(1, SectionsMax).Draw(t, "sections") {
			s := Section{Kind: rapid.Uint32().Draw(t, "kind"), CRC: rapid.Uint32().Draw(t, "crc"), Offset: at, Bytes: rapid.Int64Range(0, 1<<30).Draw(t, "bytes")}
			f.Sections = append(f.Sections, s)
			at += s.StoredBytes()
		}
		f.Size = at + FooterBytes
		got, err := ParseFooter(f.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(f, got); d != "" {
			t.Fatal(d)
		}
	})
}

// Every single bit of a footer block counts.
func TestFooterBitFlips(t *testing.T) {
	f := testFooter()
	b := f.Marshal()
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, err := ParseFooter(b); err == nil {
			t.Errorf("bit %d of byte %d flipped, and the footer parses", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

// resealFooter makes the footer's checksum right again.
func resealFooter(b []byte) []byte {
	c := Checksum(b[:footerCRC])
	b[4092], b[4093], b[4094], b[4095] = byte(c), byte(c>>8), byte(c>>16), byte(c>>24)
	return b
}

func TestFooterErrors(t *testing.T) {
	f := testFooter()
	change := func(off int, v byte) []byte {
		b := f.Marshal()
		b[off] ^= v
		return b
	}
	var future *FutureVersionError
	var invalid *InvalidError
	isInvalid := func(err error) bool { return errors.As(err, &invalid) }
	for name, c := range map[string]struct {
		b    []byte
		want func(error) bool
	}{
		"short":              {f.Marshal()[:4095], isInvalid},
		"magic":              {resealFooter(change(0, 1)), isInvalid},
		"version, rotten":    {change(8, 1), isInvalid},
		"version, later":     {resealFooter(change(8, 1)), func(err error) bool { return errors.As(err, &future) && future.Version == 1 }},
		"flag":               {resealFooter(change(16, 4)), func(err error) bool { return errors.Is(err, ErrUnknownFlag) }},
		"kind":               {resealFooter(change(12, 2)), func(err error) bool { return errors.Is(err, ErrUnknownFlag) }},
		"reserved":           {resealFooter(change(14, 1)), isInvalid},
		"end":                {resealFooter(change(65, 0x40)), isInvalid},
		"end before frames":  {resealFooter(change(65, 0x13)), isInvalid},
		"first LSN":          {resealFooter(change(72, 64)), isInvalid},
		"size":               {resealFooter(change(89, 0x10)), isInvalid},
		"replaces too many":  {resealFooter(change(97, 1)), isInvalid},
		"too many sections":  {resealFooter(change(101, 1)), isInvalid},
		"replaced, reserved": {resealFooter(change(footerReplaces+8, 1)), isInvalid},
		"section's offset":   {resealFooter(change(footerSections+9, 0x10)), isInvalid},
		"section's length":   {resealFooter(change(footerSections+18, 1)), isInvalid},
		"behind the table":   {resealFooter(change(footerSections+3*sectionEntryBytes, 1)), isInvalid},
	} {
		if _, err := ParseFooter(c.b); !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The bytes of a footer are what the documentation says.
func TestFooterBytes(t *testing.T) {
	f := testFooter()
	b := f.Marshal()
	for _, c := range []struct {
		at   int
		want []byte
	}{
		{0, []byte("durafs\n\r")},
		{8, []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 2, 3}},
		{40, []byte{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 3}},
		{64, []byte{0x88, 0x13, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0x60}},
		{96, []byte{2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0}},
		{360, []byte{1, 0, 0, 0, 9, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 77}},
	} {
		if got := b[c.at : c.at+len(c.want)]; !bytes.Equal(got, c.want) {
			t.Errorf("at %d: % x, want % x", c.at, got, c.want)
		}
	}
}

// Every bit of a page counts; so do another place and another salt.
func TestPages(t *testing.T) {
	key := NewKey(42)
	p := bytes.Repeat([]byte{7}, PageBytes)
	SealPage(p, key, 8192)
	if got, err := CheckPage(p, key, 8192); err != nil || len(got) != PageContentBytes {
		t.Fatal(len(got), err)
	}
	for i := 0; i < len(p)*8; i += 7 {
		p[i/8] ^= 1 << (i % 8)
		if _, err := CheckPage(p, key, 8192); err == nil {
			t.Fatalf("bit %d of byte %d flipped, and the page checks", i%8, i/8)
		}
		p[i/8] ^= 1 << (i % 8)
	}
	if _, err := CheckPage(p, key, 4096); err == nil {
		t.Error("the page checks at another place")
	}
	if _, err := CheckPage(p, NewKey(43), 8192); err == nil {
		t.Error("the page checks under another salt")
	}
	if _, err := CheckPage(p[:PageBytes-1], key, 8192); err == nil {
		t.Error("a part of a page checks")
	}
	for n, want := range map[int64]int64{0: 0, 1: 4096, 4092: 4096, 4093: 8192, 8184: 8192} {
		if got := SectionBytes(n); got != want {
			t.Errorf("a section of %d bytes takes %d, not %d", n, got, want)
		}
	}
}

// FuzzFooter: what parses as a footer marshals to the same bytes.
func FuzzFooter(f *testing.F) {
	foot := testFooter()
	f.Add(foot.Marshal()[:footerCRC])
	empty := Footer{Header: Header{Kind: LogFile}, End: HeaderBytes, First: 1, Size: HeaderBytes + FooterBytes}
	f.Add(empty.Marshal()[:footerCRC])
	f.Add(resealFooter(make([]byte, FooterBytes))[:footerCRC])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(bytes.Clone(b), make([]byte, max(0, FooterBytes-len(b)))...)[:FooterBytes]
		resealFooter(b) // a fuzzer finds no checksums
		foot, err := ParseFooter(b)
		if err != nil {
			return
		}
		if got := foot.Marshal(); !bytes.Equal(got, b) {
			t.Fatalf("%+v marshals to other bytes", foot)
		}
		if at := foot.Size - FooterBytes; at < SectionsOffset(foot.End) {
			t.Fatalf("%+v has its footer before its end", foot)
		}
	})
}
