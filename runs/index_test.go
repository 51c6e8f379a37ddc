package runs

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestIndexBytes holds the cost of an idle run: one that was started, has
// written rows and is finished.
func TestIndexBytes(t *testing.T) {
	const runs, bytesMax = 200_000, 200
	x := newIndex()
	before := heap()
	fillIndex(&x, runs)
	per := float64(heap()-before) / runs
	t.Logf("%.1f bytes per idle run, of which %d are its text", per, len(encodeText(sampleID(1), "", nil))/textUnit*textUnit+textUnit)
	if per > bytesMax {
		t.Errorf("an idle run costs %.0f bytes, and the limit is %d", per, bytesMax)
	}
	runtime.KeepAlive(&x)
}

func BenchmarkIndexMillion(b *testing.B) {
	const runs = 1_000_000
	for b.Loop() {
		before := heap()
		x := newIndex()
		fillIndex(&x, runs)
		b.ReportMetric(float64(heap()-before)/runs, "bytes/run")
		runtime.KeepAlive(&x)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func sampleID(n int) string { return fmt.Sprintf("01890a5d-ac96-774b-8000-%012x", n) }

// fillIndex enters runs as a store would have them: their logs lie in sealed
// segments, they have no labels.
func fillIndex(x *index, runs int) {
	for n := 1; n <= runs; n++ {
		num := uint32(n)
		c, i := x.admit(num, &admission{id: sampleID(n), target: targetMaster})
		c.admission[i], c.started[i], c.changed[i] = uint64(n), int64(n), int64(n)
		x.setPhase(num, Terminal)
		c.tail[i] = 2
	}
}

func TestIndexHasNoPointerPerRun(t *testing.T) {
	if size := unsafe.Sizeof(columns{}) / chunkRuns; size > 140 {
		t.Errorf("a row of the columns has %d bytes", size)
	}
}

func TestIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex()
		model := map[string]uint32{}
		id := rapid.OneOf(
			rapid.StringMatching(`exec_[a-c]{1,3}`),
			rapid.Custom(func(t *rapid.T) string { return sampleID(rapid.IntRange(1, 300).Draw(t, "n")) }),
		)
		for n := uint32(1); n < 400; n++ {
			s := id.Draw(t, "id")
			if x.find(s) != model[s] {
				t.Fatalf("%s is found as %d, want %d", s, x.find(s), model[s])
			}
			if model[s] != 0 {
				continue
			}
			x.admit(n, &admission{id: s, parent: "exec_p", labels: Labels{"thread": s, "a": ""}})
			model[s] = n
			if x.id(n) != s || string(x.label(n, "thread")) != s || x.label(n, "a") == nil || x.label(n, "b") != nil || textID(x.parent(n)) != "exec_p" {
				t.Fatalf("run %d does not say who it is", n)
			}
		}
		for s, n := range model {
			if x.find(s) != n {
				t.Fatalf("%s is lost", s)
			}
		}
	})
}
