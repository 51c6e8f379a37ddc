package runs

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortAdmissions: whatever order tables have the runs in, near the one of
// their admissions or far from it, lists have that of the admissions.
func TestSortAdmissions(t *testing.T) {
	const runs = 3000
	r := rand.New(rand.NewPCG(1, 2))
	sorted := make([]uint32, runs)
	for i := range sorted {
		sorted[i] = uint32(i + 1)
	}
	backwards := slices.Clone(sorted)
	slices.Reverse(backwards)
	near, far := slices.Clone(sorted), slices.Clone(sorted)
	for at := 0; at < runs; at += 10 { // ten started at the same time
		r.Shuffle(10, func(i, j int) { near[at+i], near[at+j] = near[at+j], near[at+i] })
	}
	r.Shuffle(runs, func(i, j int) { far[i], far[j] = far[j], far[i] })
	for name, order := range map[string][]uint32{
		"in order": sorted, "near": near, "backwards": backwards, "any": far, "one": {1}, "none": {},
	} {
		x := newIndex()
		for admission, num := range order {
			c, i := x.grow(num)
			c.admission[i] = uint64(admission + 1)
			x.byAdmit = append(x.byAdmit, num)
		}
		slices.Sort(x.byAdmit) // as tables have them
		x.sortAdmissions()
		if !slices.Equal(x.byAdmit, order) {
			t.Errorf("%s: not in the order of admissions", name)
		}
	}
}
