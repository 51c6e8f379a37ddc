package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"durafs/internal/vfs/simdisk"
)

var cycles = flag.Int("cycles", 1000, "how often one disk loses its power, or its process")

// cycle is a life of some steps and the crash in it. It judges what it finds.
type cycle struct {
	driver *Driver
	// bytesMax bounds what is on the disk after n crashes.
	bytesMax func(n int) int64
	// strange are files that must not be there after an open.
	strange func(name string) bool
	// forget leaves out promises that say nothing more.
	forget func([]Promise) []Promise
}

// lead crashes and recovers one disk again and again.
func (c *cycle) lead(t *testing.T, n int) {
	if testing.Short() {
		n /= 20
	}
	dice := rand.New(rand.NewPCG(*seed, 11))
	l := c.driver.first(*seed)
	most := int64(0)
	for i := range n {
		journal := l.Record()
		if err := c.driver.live(l); err != nil {
			t.Fatalf("after %d crashes: %v", i, err)
		}
		disk, calls := l.Clone(), len(journal.Calls())
		if i%3 > 0 { // each third process is killed at its end, with its page cache
			disk, calls = oneOf(journal, dice)
		}
		most = max(most, disk.UsedBytes())
		if limit := c.bytesMax(i + 1); disk.UsedBytes() > limit {
			t.Fatalf("after %d crashes %d bytes are in use, more than %d:\n%s", i+1, disk.UsedBytes(), limit, strings.Join(filesOf(disk, "/"), "\n"))
		}
		l = after(disk, 1, *seed, c.forget(l.upTo(calls)))
		l.salted.Store(uint32(i+1) << 8) // no two files have one
	}
	if err := c.driver.judge(l); err != nil {
		t.Fatalf("after %d crashes: %v", n, err)
	}
	for _, name := range filesOf(l.Disk, "/") {
		if c.strange(name) {
			t.Errorf("%s is there after %d crashes and an open", name, n)
		}
	}
	t.Logf("%s: %d crashes, at most %d bytes in use", c.driver.Name, n, most)
}

// oneOf is a state that a power cut can leave, any of those at some call.
func oneOf(journal *simdisk.Journal, dice *rand.Rand) (*simdisk.Disk, int) {
	at := dice.IntN(len(journal.Calls()) + 1)
	x := simdisk.Explore{Seed: dice.Uint64(), From: at, To: at + 1}
	e := journal.Explore(x)
	var chosen *simdisk.Disk
	calls, met := at, 0
	for s := range e.States() {
		if met++; dice.IntN(met) == 0 {
			chosen, calls = s.Disk(), s.Calls
		}
	}
	return chosen, calls
}

// filesOf lists the files under a directory.
func filesOf(disk *simdisk.Disk, dir string) (all []string) {
	names, _ := disk.ReadDir(dir)
	for _, name := range names {
		name = path.Join(dir, name)
		if info, err := disk.Stat(name); err == nil && info.IsDir {
			all = append(all, filesOf(disk, name)...)
		} else {
			all = append(all, name)
		}
	}
	return all
}

// remains are files that an open takes away: of what was begun and not ended.
func remains(name string) bool {
	return strings.Contains(name, ".tmp") || strings.Contains(name, ".making") || strings.HasPrefix(name, storeDir+"/tmp/") || strings.HasPrefix(name, storeDir+"/lost/")
}

// A log that drops what is old stays as small as it is, however often it is
// killed and loses its power.
func TestCyclesOfALog(t *testing.T) {
	w := recycleWork{logWork: logWork{inFlight: 2, segment: 3 << 12, bytes: func(lsn uint64) int { return 700 + int(lsn%3)*800 }}}
	c := cycle{
		driver: &Driver{
			Name: "log", Live: func(l *Life) error { return dropAndDie(&w, l) },
			Judge: func(l *Life) error { _, err := w.open(l); return err },
		},
		bytesMax: func(int) int64 { return 32*w.segment + 4*manifestBytes },
		strange:  remains,
		forget:   latestOfLog,
	}
	c.lead(t, *cycles)
}

// dropAndDie appends, drops until little is left, and is killed. A crash may
// undo any part of that, for the next life to do.
func dropAndDie(w *recycleWork, l *Life) error {
	o, err := w.open(l)
	if err != nil {
		return err
	}
	o.log.Start(&published{last: o.last()})
	err = w.append(l, o, 4)
	for range dropsMax {
		if err == nil && len(filesOf(l.Disk, "/wal")) > filesKept {
			err = w.drop(l, o.log)
		}
	}
	l.Kill()
	o.log.Close(context.Background())
	return err
}

const (
	// filesKept are the active segment, the next, one that is being sealed, the
	// manifest's copies and some more.
	filesKept = 8
	dropsMax  = 40
)

// latestOfLog leaves out what later promises say too.
func latestOfLog(all []Promise) (kept []Promise) {
	met, from := map[string]bool{}, uint64(0)
	for _, p := range slices.Backward(all) {
		from = max(from, map[bool]uint64{true: p.N}[p.What == dropped])
	}
	for _, p := range slices.Backward(all) {
		key := fmt.Sprint(p.What, p.M*uint64(strings.Count(p.What, tried)))
		if p.What == dropping && p.N >= from || p.What != dropping && !met[key] {
			kept = append(kept, p)
			met[key] = true
		}
	}
	slices.Reverse(kept)
	return kept
}

// A store grows by what it is given, and by little more for each crash.
func TestCyclesOfAStore(t *testing.T) {
	w := &storeWork{agents: 1, lives: 1, pack: 128 << 10}
	lives := 0
	c := cycle{
		driver: &Driver{Name: "store", Judge: w.judge, Live: func(l *Life) error {
			lives++
			return littleLife(w, l, lives)
		}},
		bytesMax: func(n int) int64 { return 1<<20 + int64(n)*storeCycleBytes },
		strange:  remains,
		forget:   latestOfStore,
	}
	c.lead(t, *cycles/storeCyclesShare)
}

const (
	// storeCycleBytes is what a crash, and what little a life does, may take: a
	// segment and a pack that end with it, and what is in them.
	storeCycleBytes = 112 << 10
	// storeCyclesShare: a whole store takes longer to open than a log.
	storeCyclesShare = 10
	// runsJudged are the latest runs, whose content is judged.
	runsJudged = 6
)

// littleLife starts a run, with a row and a payload, and is killed.
func littleLife(w *storeWork, l *Life, nth int) error {
	s, _, err := w.open(l)
	if err != nil {
		return err
	}
	a := &agent{l: l, s: s, run: fmt.Sprintf("exec_%d", nth), salt: uint64(nth)}
	script := []step{{kind: stepRow, size: 40}, {kind: stepPut, name: "chunk", size: 17 << 10}, {kind: stepSettle, size: 300}}
	err = a.live(script[:1+nth%3])
	return errors.Join(err, end(l, s, false))
}

// latestOfStore leaves out the promises of all runs but the latest.
func latestOfStore(all []Promise) (kept []Promise) {
	var order []string
	gone := uint64(0)
	of := func(p Promise) string { id, _, _ := strings.Cut(p.Text, "\x00"); return id }
	for _, p := range all {
		switch {
		case p.What == forgotten:
			gone += p.N
		case !slices.Contains(order, of(p)):
			order = append(order, of(p))
		}
	}
	from := max(0, len(order)-runsJudged)
	for _, p := range all {
		if p.What != forgotten && slices.Index(order, of(p)) >= from {
			kept = append(kept, p)
		}
	}
	return append(kept, Promise{What: forgotten, N: gone + uint64(from)})
}
