package cas

import (
	"slices"
	"testing"

	"durafs/internal/vfs"
)

// census takes down a store's records.
func census(t *testing.T, dir string, packs []Pack) *Census {
	t.Helper()
	c := new(Census)
	if _, err := Verify(t.Context(), vfs.OS, dir, packs, false, c, func(f Finding) { t.Error(f) }); err != nil {
		t.Fatal(err)
	}
	return c
}

// reach marks what refs refer to, and tells which of them lack something.
func reached(t *testing.T, c *Census, dir string, packs []Pack, refs ...Ref) (lacking []*MissingError) {
	t.Helper()
	err := c.Reach(t.Context(), vfs.OS, dir, packs, slices.Values(refs), func(_ Ref, m *MissingError) { lacking = append(lacking, m) })
	if err != nil {
		t.Fatal(err)
	}
	return lacking
}

// TestReach: what no payload refers to is counted, to the byte, and a chunk
// that two share is not.
func TestReach(t *testing.T) {
	l, dir, refs, datas := sealedPack(t)
	all := census(t, dir, l.packs)
	records, bytes := all.Unreferenced()
	if lacking := reached(t, all, dir, l.packs, refs...); len(lacking) > 0 {
		t.Errorf("%v", lacking)
	}
	if n, b := all.Unreferenced(); n != 0 || b != 0 || records < 10 || bytes < 40_000 {
		t.Errorf("of %d records, %d bytes, nobody refers to %d, %d", records, bytes, n, b)
	}
	// The sum over payloads that share nothing, each left out once, is all.
	var sum, sumBytes int64
	for i := range refs {
		c := census(t, dir, l.packs)
		reached(t, c, dir, l.packs, slices.Delete(slices.Clone(refs), i, i+1)...)
		n, b := c.Unreferenced()
		if b < int64(len(datas[i]))/100 || n < int64(len(datas[i])/4096) {
			t.Errorf("without payload %d: %d records, %d bytes", i, n, b)
		}
		sum, sumBytes = sum+n, sumBytes+b
	}
	if sum != records || sumBytes != bytes {
		t.Errorf("%d records, %d bytes, one payload after the other; %d, %d together", sum, sumBytes, records, bytes)
	}
}

// TestReachMisses: a payload of which a chunk, or the manifest, is nowhere lacks
// that, unless it should be in a pack that was begun since the list was read.
func TestReachMisses(t *testing.T) {
	l, dir, refs, datas := sealedPack(t)
	whole := census(t, dir, l.packs)
	for _, id := range []ID{Sum(datas[0][4096*2 : 4096*3]), refs[0].ID} {
		c := &Census{records: slices.DeleteFunc(slices.Clone(whole.records), func(r counted) bool { return r.id == prefixOf(id) })}
		if len(c.records) != len(whole.records)-1 {
			t.Fatalf("%v is no record", id)
		}
		lacking := reached(t, c, dir, l.packs, refs...)
		if len(lacking) != 1 || lacking[0].ID != id {
			t.Fatalf("without %v: %v", id, lacking)
		}
		at := lacking[0].At
		hit := Finding{seq: at.Pack, Offset: int64(at.Offset), end: int64(at.End)}
		beside := Finding{seq: at.Pack, Offset: int64(at.End), end: int64(at.End) + 16}
		if lacking[0].Rotten([]Finding{beside}) || !lacking[0].Rotten([]Finding{beside, hit}) {
			t.Errorf("whether it was there once is not told by what was found")
		}
	}
	later := Ref{ID: ID{1}, Bytes: 100, Hint: Hint{Pack: refs[0].Hint.Pack + 1}}
	if lacking := reached(t, new(Census), dir, l.packs, later); len(lacking) > 0 {
		t.Errorf("in a later pack: %v", lacking)
	}
}
