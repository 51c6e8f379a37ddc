//go:build mutants

package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"durafs/internal/mutant"
	"durafs/internal/vfs/simdisk"
	"durafs/wal"
)

// mutantBudget and mutantStatesMax bound the search for one fault by one driver
// in one layer.
const (
	mutantBudget    = 10 * time.Second
	mutantStatesMax = 20_000
)

// cell says where in a layer a fault is found: by a driver; or why no state of
// the layer can show it.
type cell struct{ driver, why string }

func by(driver string) cell  { return cell{driver: driver} }
func hidden(why string) cell { return cell{why: why} }

// columns are the layers of the matrix. The last is no layer but checks that
// harm more at a time than a layer does.
var columns = []string{"L1", "L2", "L7", "check"}

// Why a layer cannot see a fault.
var (
	noFailure = hidden("no call fails")
	noRot     = hidden("what is torn has another LSN or chain, or a payload that does not check")
	noCut     = hidden("nothing is cut")
	noCheck   = cell{}
)

// matrix says of each fault, by column, what finds it.
var matrix = map[mutant.Name][4]cell{
	mutant.NoDirSyncAfterCreate: {by("append"), by("append"), noCut, noCheck},
	mutant.NoDirSyncAfterRename: {by("append"), by("append"), noCut, noCheck},
	mutant.DirOfKilledNotSynced: {by("tiny"), by("append"), noCut, noCheck},
	mutant.AckBeforeBarrier:     {by("append"), by("append"), noCut, noCheck},
	mutant.SyncRetried:          {noFailure, by("append"), noCut, noCheck},
	mutant.SaltNotInChecksum: {
		hidden("frames of a file's former use have lower LSNs and another chain: they neither follow nor claim what is missing"),
		hidden("as in L1"), by("roll"), noCheck,
	},
	mutant.OldTailAppended:       {by("recycle"), by("recycle"), noCut, noCheck},
	mutant.ManifestUnlinkedEarly: {by("recycle"), by("roll"), noCut, noCheck},
	mutant.ManifestNotSynced:     {by("roll"), by("append"), noCut, noCheck},
	mutant.ListedAfterFrames:     {by("roll"), by("append"), by("append"), noCheck},
	mutant.ChunkNotSynced:        {by("chunks"), by("chunks"), noCut, noCheck},
	mutant.DedupBeforeBarrier:    {by("chunks"), by("chunks"), noCut, noCheck},
	mutant.FooterTrusted: {
		hidden("a pack has its name as a sealed one only when its footer is synced"), hidden("as in L1"), by("chunks"), noCheck,
	},
	mutant.LengthBeforeChecksum:   {noRot, noRot, by("tiny"), noCheck},
	mutant.PayloadNotChecked:      {by("append"), by("append"), by("append"), noCheck},
	mutant.DuplicateBeforeBarrier: {by("append"), by("append"), noCut, noCheck},
	mutant.CacheTrusted:           {noFailure, by("append"), noCut, noCheck},
	mutant.FirstLaterFrame: {
		hidden("behind what is torn no crash leaves a frame that calls it durable, be it the first or the largest"), hidden("as in L1"), by("append"), noCheck,
	},
	mutant.RotIsCut: {
		hidden("behind what is torn no crash leaves a frame that calls it durable, so it is cut either way"), hidden("as in L1"), by("append"), noCheck,
	},
	mutant.DurableIsAccepted:     {by("append"), by("append"), by("append"), noCheck},
	mutant.RefusedSegmentWritten: {noFailure, by("append"), noCut, noCheck},
	mutant.NewestPublished:       {by("large"), by("large"), by("large"), noCheck},
	mutant.CutBeforeListed: {
		hidden("the edit follows in the same step; between them a crash leaves a segment that is cut where it ends, behind all that counts"),
		by("seal"), noCut, noCheck,
	},
	mutant.ChunkNotVerified: {
		hidden("what is torn has no record that checks, or was never acknowledged"), hidden("as in L1"), by("payloads"), noCheck,
	},
	mutant.LinkedRecycled: {by("lent"), hidden("no driver lends where calls fail"), noCut, noCheck},
	mutant.VouchedInItsBlock: {
		hidden("a crash tears what is on its way, and that is not vouched for"), hidden("as in L1"),
		hidden("one copy of the manifest is harmed at a time, and the other has the edit"), by("both copies"),
	},
	mutant.SweepNotFrozen:     {by("sweep"), by("sweep"), noCut, noCheck},
	mutant.SweepNotDrained:    {by("sweep"), by("sweep"), noCut, noCheck},
	mutant.SweepErrorIsEmpty:  {noFailure, by("sweep"), noCut, noCheck},
	mutant.SweepUnlinkedEarly: {by("sweep"), by("sweep"), noCut, noCheck},
	mutant.SweepNotSealed:     {by("sweep"), by("sweep"), noCut, noCheck},
	mutant.OutboxDoneEarly:    {by("cancel"), by("cancel"), noCut, noCheck},
}

// checks are the drivers of the last column.
var checks = map[string]func() error{"both copies": bothCopiesHarmed}

// TestMutants switches each planted fault on, and lets each driver and layer that
// knows it look for it. Each has to be found by one of them.
func TestMutants(t *testing.T) {
	defer mutant.Use(mutant.None)
	var table strings.Builder
	var reasons []string
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\t"+strings.Join(columns, "\t"))
	for _, m := range mutant.All() {
		if *only != "" && !strings.Contains(m.String(), *only) {
			continue
		}
		cells, ok := matrix[m]
		if !ok {
			t.Errorf("%q is not in the matrix", m)
		}
		found, row := false, []string{m.String()}
		for i, c := range cells {
			got, here := hunt(m, columns[i], c)
			if c.why != "" {
				n := slices.Index(reasons, c.why) + 1
				if n == 0 {
					reasons = append(reasons, c.why)
					n = len(reasons)
				}
				got = fmt.Sprintf("not visible (%d)", n)
			}
			row, found = append(row, got), found || here
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
		if !found {
			t.Errorf("%q is found by nothing", m)
		}
	}
	w.Flush()
	for i, why := range reasons {
		fmt.Fprintf(&table, "(%d) %s\n", i+1, why)
	}
	t.Logf("found by: after so many states\n%s", table.String())
}

// hunt looks for a fault with the driver that finds it in a layer.
func hunt(m mutant.Name, column string, c cell) (got string, found bool) {
	mutant.Use(m)
	defer mutant.Use(mutant.None)
	switch {
	case c.why != "":
		return "not visible", false
	case c.driver == "":
		return "", false
	case column == "check":
		if err := checks[c.driver](); err == nil {
			return c.driver + ": NOT FOUND", false
		}
		return c.driver + ": 1", true
	}
	layer := layers[slices.IndexFunc(layers, func(l layer) bool { return l.name == column })]
	drivers := Drivers()
	d := drivers[slices.IndexFunc(drivers, func(d *Driver) bool { return d.Name == c.driver })]
	r := layer.run(d, Config{Seed: *seed, Budget: mutantBudget, StatesMax: mutantStatesMax})
	if len(r.Failures) == 0 {
		return fmt.Sprintf("%s: NOT FOUND in %d", d.Name, r.Distinct), false
	}
	return fmt.Sprintf("%s: %d", d.Name, max(r.Failures[0].Judged, 1)), true
}

// TestMutantChecks: without a fault the checks find nothing.
func TestMutantChecks(t *testing.T) {
	for name, check := range checks {
		if err := check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// bothCopiesHarmed drops segments, and lets both copies of the manifest lose
// their last block right then: what that tells of is there, or the manifest is
// named as damaged. No file that was dropped is missed.
func bothCopiesHarmed() error {
	ctx := context.Background()
	// The edits of packs push what follows out of the block of the snapshot.
	w := recycleWork{logWork: logWork{inFlight: 1, packs: 12, segment: 3 << 12, bytes: func(uint64) int { return 2600 }}}
	l := (&Driver{}).first(1)
	o := w.options(l)
	o.QuietAfter, o.ManifestBytes = time.Hour, 64<<10
	log, _, err := wal.Open(ctx, o, func(wal.Frame) error { return nil })
	if err != nil {
		return err
	}
	log.Start(&published{})
	opened := &opened{log: log, chains: make([]uint64, 1)}
	for begin := time.Now(); log.HighWater().Dropped == 0; {
		if err := errors.Join(w.append(l, opened, 3), w.drop(l, log)); err != nil {
			return err
		}
		if time.Since(begin) > mutantBudget {
			return errors.New("nothing could be dropped")
		}
	}
	l.Kill()
	log.Close(ctx)
	disk := l.Clone()
	for _, name := range []string{"/wal/MANIFEST-A", "/wal/MANIFEST-B"} {
		last, err := lastBlock(disk, name)
		if err != nil {
			return err
		}
		disk.Damage(simdisk.Damage{Kind: simdisk.RotPage, File: name, Off: last})
	}
	o.FS = disk
	log, _, err = wal.Open(ctx, o, func(wal.Frame) error { return nil })
	damage, named := errors.AsType[*wal.DamageError](err)
	if named && strings.HasPrefix(damage.File, "MANIFEST") {
		return nil
	}
	if err == nil && log.HighWater().Dropped == 0 {
		return errors.New("the drop is forgotten")
	}
	return err
}

// lastBlock is where the last block of a file begins that is not zeros.
func lastBlock(disk *simdisk.Disk, name string) (int64, error) {
	f, err := disk.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	b := make([]byte, size)
	if n, readErr := f.ReadAt(b, 0); err != nil || int64(n) < size {
		return 0, errors.Join(err, readErr)
	}
	end := len(strings.TrimRight(string(b), "\x00"))
	return int64(end-1) / simdisk.BlockBytes * simdisk.BlockBytes, nil
}
