package cas

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each format has one spelling: what parses marshals to the same bytes, and
// what was marshalled parses to the same value.

func FuzzFileHeader(f *testing.F) {
	f.Add(fileHeader{StoreID: [16]byte{9}, Seq: 7, Nonce: 1 << 60}.marshal())
	f.Add(make([]byte, packHeaderBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseFileHeader(b)
		if err == nil && !bytes.Equal(h.marshal(), b) {
			t.Errorf("%+v has two forms", h)
		}
	})
}

func FuzzRecordHeader(f *testing.F) {
	seed := func(h recordHeader) {
		b := make([]byte, recordHeaderBytes)
		h.put(b, 42, 4096)
		f.Add(b, true)
	}
	seed(recordHeader{Stored: 10, Raw: 10, Codec: codecRaw, Kind: kindChunk, ID: ID{1}, CRC: 5})
	seed(recordHeader{Stored: 10, Raw: 65536, Codec: codecZstd, Kind: kindChunk})
	seed(recordHeader{Stored: 80, Raw: 80, Kind: kindRoot})
	f.Add(make([]byte, recordHeaderBytes), true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) >= recordHeaderBytes { // or the fuzzer never gets past the checksum
			b = bytes.Clone(b)
			le32put(b[0:], recordMagic)
			le32put(b[60:], keyedChecksum(b[:60], 42, 4096))
		}
		h, err := parseRecordHeader(b, 42, 4096)
		if err != nil {
			return
		}
		if h.Raw > recordBodyMax || h.Stored > recordBodyMax || h.bytes()%recordAlign != 0 {
			t.Errorf("%+v is out of bounds", h)
		}
		again := make([]byte, recordHeaderBytes)
		h.put(again, 42, 4096)
		if !bytes.Equal(again, b[:recordHeaderBytes]) {
			t.Errorf("%+v has two forms", h)
		}
		for _, other := range []struct {
			nonce uint64
			off   int64
		}{{43, 4096}, {42, 4104}} {
			if _, err := parseRecordHeader(b, other.nonce, other.off); !errors.Is(err, errNoRecord) {
				t.Errorf("it also passes with nonce %d at %d", other.nonce, other.off)
			}
		}
	})
}

func le32put(b []byte, v uint32) {
	b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}

func FuzzNode(f *testing.F) {
	for _, n := range []*node{
		{Chunk: 65536, Fanout: 1024, Bytes: 65537, Child: make([]child, 2)},
		{Level: 1, Chunk: 1024, Fanout: 2, Bytes: 2049, Child: []child{{ID: ID{1}, Hint: Hint{1, 2, 3}}, {ID: ID{2}}}},
	} {
		b, _ := n.marshal()
		f.Add(b[:len(b)-nodeSumBytes])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := nodeSum(body)
		b := append(bytes.Clone(body), sum[:]...)
		n, got, err := parseNode(b)
		if err != nil {
			return
		}
		again, sum2 := n.marshal()
		if got != sum || sum2 != sum || !bytes.Equal(again, b) {
			t.Errorf("%+v has two forms", n)
		}
		var total int64
		for i := range n.Child {
			c := n.childBytes(i)
			if c <= 0 || c > n.span() {
				t.Errorf("child %d covers %d bytes", i, c)
			}
			total += c
		}
		if total != n.Bytes {
			t.Errorf("the children cover %d of %d bytes", total, n.Bytes)
		}
	})
}

func FuzzFooter(f *testing.F) {
	foot := marshalFooter(Pack{Seq: 3, Nonce: 8}, 8192, []entry{{ID{1}, 4096, 5000}, {ID{1}, 6000, 7000}, {ID{9}, 5000, 6000}})
	f.Add(foot[:len(foot)-footerTrailerBytes], uint32(8192))
	f.Add([]byte{}, uint32(4096))
	f.Fuzz(func(t *testing.T, b []byte, start uint32) {
		tr := trailer{Seq: 3, Nonce: 8, Count: uint32(len(b) / footerEntryBytes), Entries: start, CRC: checksum(b)}
		tb := tr.marshal()
		got, err := parseTrailer(tb, tr.end())
		if err != nil {
			return
		}
		if got != tr || !bytes.Equal(got.marshal(), tb) {
			t.Errorf("%+v has two forms", tr)
		}
		entries, err := parseEntries(b, got)
		if err != nil {
			return
		}
		again := marshalFooter(Pack{Seq: 3, Nonce: 8}, int64(start), slices.Clone(entries))
		if !bytes.Equal(again, append(bytes.Clone(b), tb...)) {
			t.Errorf("%d entries have two forms", len(entries))
		}
	})
}

func FuzzTrailer(f *testing.F) {
	f.Add(trailer{Seq: 1, Count: 1, Nonce: 2, Entries: 4096, CRC: 3}.marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == footerTrailerBytes {
			b = bytes.Clone(b)
			copy(b, footerMagic)
		}
		for _, off := range []int64{4096, 4136} {
			if tr, err := parseTrailer(b, off); err == nil && !bytes.Equal(tr.marshal(), b) {
				t.Errorf("%+v has two forms", tr)
			}
		}
	})
}

// A walk ends, whatever the bytes, and finds nothing in what another pack
// wrote.
func FuzzWalk(f *testing.F) {
	rec := make([]byte, recordHeaderBytes+8)
	recordHeader{Stored: 3, Raw: 3, Kind: kindChunk, ID: Sum([]byte("abc")), CRC: checksum([]byte("abc"))}.put(rec, 1, 4096)
	copy(rec[recordHeaderBytes:], "abc")
	f.Add(rec)
	f.Add(bytes.Repeat([]byte("PKR1"), 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := append(make([]byte, packHeaderBytes), b...)
		at := int64(packHeaderBytes)
		walkPack(bytes.NewReader(file), 1, int64(len(file)), func(w walked) {
			if w.off != at || w.end <= w.off || w.end > int64(len(file)) {
				t.Fatalf("walked from %d to %d, was at %d", w.off, w.end, at)
			}
			at = w.end
		})
		walkPack(bytes.NewReader(file), 2, int64(len(file)), func(w walked) {
			if w.err == nil {
				t.Error("a record of another pack was taken for one of this")
			}
		})
	})
}

func FuzzParseID(f *testing.F) {
	f.Add(EmptyID.String())
	f.Add("AF1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && id.String() != s {
			t.Errorf("%q has two forms", s)
		}
	})
}

func TestEmptyID(t *testing.T) {
	if Sum(nil) != EmptyID {
		t.Errorf("EmptyID is not %v", Sum(nil))
	}
	var id ID
	text, _ := EmptyID.MarshalText()
	if err := id.UnmarshalText(text); err != nil || id != EmptyID {
		t.Errorf("%s: %v, %v", text, id, err)
	}
}

func TestLaterVersionIsNoDamage(t *testing.T) {
	b := fileHeader{Seq: 1}.marshal()
	b[8] = 1
	le32put(b[4092:], checksum(b[:4092]))
	if _, err := parseFileHeader(b); !errors.Is(err, ErrFormat) {
		t.Errorf("header: %v", err)
	}
	n := &node{Chunk: 65536, Fanout: 2, Bytes: 5, Child: make([]child, 1)}
	nb, _ := n.marshal()
	nb[0] = 1
	sum := nodeSum(nb[:len(nb)-nodeSumBytes])
	copy(nb[len(nb)-nodeSumBytes:], sum[:])
	if _, _, err := parseNode(nb); !errors.Is(err, ErrFormat) {
		t.Errorf("node: %v", err)
	}
}

// The table against a map.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tab := newTable(500)
	want := map[ID][]int64{}
	var order []ID
	for i := range 900 {
		var id ID
		for j := range 3 { // few marks, so that they collide
			id[j] = byte(r.IntN(6))
		}
		id[20] = byte(i)
		off := int64(i+512) * recordAlign
		tab.add(slotOf(id, 7, off))
		want[id] = append(want[id], off)
		order = append(order, id)
	}
	for i, id := range order {
		var got []int64
		tab.find(id, func(seq uint32, off int64) bool {
			if seq != 7 {
				t.Fatalf("pack %d", seq)
			}
			got = append(got, off)
			return false
		})
		for _, off := range want[id] {
			if !slices.Contains(got, off) {
				t.Errorf("chunk %d at %d is not found among %v", i, off, got)
			}
		}
	}
	for i := range 2000 { // forgets the oldest, and grows no further
		tab.add(slotOf(ID{byte(i), byte(i >> 8), 9}, 8, 8))
	}
	if n := len(tab.young.slots) + len(tab.old.slots); n > 2*1024 {
		t.Errorf("%d slots for 500 chunks a half", n)
	}
}

// What compresses shrinks, base64 too, and noise is stored as it is.
func TestStoredSize(t *testing.T) {
	var b64 []byte
	for _, c := range noise(1, 65536) {
		b64 = append(b64, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[c%64])
	}
	got := map[string]float64{}
	for name, data := range map[string][]byte{"noise": noise(2, 65536), "text": text(3, 65536), "base64": b64} {
		l := &fakeLedger{}
		s := open(t, options(t, l, memDir(t)))
		mustPut(t, s, data)
		got[name] = float64(s.Stats().RecordBytes) / 65536
	}
	if got["noise"] > 1.01 || got["text"] > 0.4 || got["base64"] > 0.80 {
		t.Errorf("stored: %v", got)
	}
}

func TestNodeRoundTrip(t *testing.T) {
	n := &node{Level: 2, Chunk: 4096, Fanout: 4, Bytes: 4096*16*3 + 1, Child: []child{{ID: ID{1}}, {ID: ID{2}}, {ID: ID{3}, Hint: Hint{1, 2, 3}}, {ID: ID{4}}}}
	b, sum := n.marshal()
	got, gotSum, err := parseNode(b)
	if err != nil || sum != gotSum || cmp.Diff(n, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(n, got))
	}
}
