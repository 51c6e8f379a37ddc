package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"durafs/segment"
	"durafs/wal"
)

// The drivers below are the same work in other shapes: what a power cut can
// tear depends on where frames lie, how many are on their way, and what else is
// written at the time.

// Tiny puts many frames into one sector.
func Tiny() *Driver {
	w := logWork{batches: 32, inFlight: 8, segment: 4 << 12, lives: 1, bytes: func(lsn uint64) int { return 20 + int(lsn%5)*9 }}
	return w.driver("tiny", "many frames in a sector, eight at a time")
}

// Edges lets frames end on, just before and just behind the boundaries of
// sectors, blocks and segments.
func Edges() *Driver {
	ends := []int{512, 504, 520, 4096, 4088, 4104, 1024, 1016, 8192}
	w := logWork{batches: 18, inFlight: 2, segment: 5 << 12, lives: 1, bytes: func(lsn uint64) int {
		return ends[lsn%uint64(len(ends))] - segment.FrameHeaderBytes
	}}
	return w.driver("edges", "frames that end on the boundaries of sectors, blocks and segments, and beside them")
}

// Large writes frames that are longer than a block, and hardly fit.
func Large() *Driver {
	w := logWork{batches: 12, inFlight: 2, segment: 4 << 12, lives: 1, bytes: func(lsn uint64) int { return 5000 + int(lsn*911%7000) }}
	return w.driver("large", "frames of several blocks, of which few fit into a segment")
}

// Padded begins each group on a block, on a disk that shows garbage where
// nothing was made durable.
func Padded() *Driver {
	w := logWork{batches: 18, inFlight: 3, segment: 8 << 12, lives: 2, pad: 4096, bytes: func(lsn uint64) int { return 100 + int(lsn*331%1200) }}
	d := w.driver("padded", "groups that begin on blocks, over garbage instead of zeros")
	d.Disk.Garbage = true
	return d
}

// Restarts is killed again and again with a group on its way, and goes on: what
// recovery carries on is carried on once more.
func Restarts() *Driver {
	w := logWork{batches: 18, inFlight: 3, segment: 4 << 12, lives: 6, kills: true, bytes: func(lsn uint64) int { return 200 + int(lsn%3)*700 }}
	return w.driver("restarts", "process after process, each other one killed")
}

// Rewrite edits the manifest until it is begun anew, some times over.
func Rewrite() *Driver {
	w := logWork{batches: 12, inFlight: 2, segment: 6 << 12, lives: 2, packs: 5, bytes: func(uint64) int { return 900 }}
	return w.driver("rewrite", "edits of the manifest beside the log, until both copies are begun anew")
}

// Quiet appends, is quiet, and appends: the manifest vouches for the end.
func Quiet() *Driver {
	w := logWork{batches: 10, inFlight: 2, segment: 8 << 12, lives: 1, quiet: true, bytes: func(lsn uint64) int { return 300 + int(lsn%4)*400 }}
	return w.driver("quiet", "groups with a rest behind each, in which the manifest notes what is durable")
}

// Again is asked for the same things again by each life, in groups behind what
// the manifest vouches for: what was cut fits behind what is written then.
func Again() *Driver {
	w := logWork{batches: 9, inFlight: 3, segment: 6 << 12, lives: 1, quiet: true, again: true, bytes: func(uint64) int { return 600 }}
	return w.driver("again", "the same batches asked for again after each crash, where others were cut")
}

// Scripts are n drivers whose shape is drawn from a seed.
func Scripts(n int, seed uint64) (all []*Driver) {
	for i := range n {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		salt, low, span := rng.Uint64()|1, 10+rng.IntN(600), 1+rng.IntN(3000)
		w := logWork{
			batches: 12 + rng.IntN(16), inFlight: 1 + rng.IntN(6), segment: int64(3+rng.IntN(7)) << 12, lives: 1 + rng.IntN(4),
			kills: rng.IntN(2) == 0, packs: rng.IntN(3), quiet: rng.IntN(4) == 0,
			bytes: func(lsn uint64) int { return low + int(lsn*salt>>33)%span },
		}
		if rng.IntN(4) == 0 {
			w.pad = 512 << rng.IntN(4)
		}
		all = append(all, w.driver(fmt.Sprintf("script-%d", i+1), fmt.Sprintf(
			"drawn from seed %d: %d batches of %d to %d bytes, %d at a time, segments of %d, %d processes, pad %d",
			seed, w.batches, low, low+span, w.inFlight, w.segment, w.lives, w.pad)))
	}
	return all
}

// manifestBytes is small, so that the manifest is begun anew after some edits.
const manifestBytes = 12 << 10

// salts are the same for the same life: what is written depends on what was
// asked for, and two crashes that leave the same are one state.
func (l *Life) salts() func() uint64 {
	return func() uint64 { return uint64(l.Depth+1)<<32 | uint64(l.salted.Add(1)) }
}

// pack is what AddPack or SealPack said is durable: N is its number, M its size.
const pack = "listed"

// editPacks makes edits of the manifest as the chunk store does: a pack that
// becomes known, and one that is sealed.
func (w *logWork) editPacks(l *Life, log *wal.Log) error {
	for range w.packs {
		seq := log.HighWater().Pack + 1
		if err := log.AddPack(wal.Pack{Seq: seq, Nonce: uint64(seq)}); err != nil {
			return err
		}
		l.Promise(Promise{What: pack, N: uint64(seq)})
		if seq%2 == 0 {
			continue
		}
		size := int64(seq) * 100
		if err := log.SealPack(wal.Pack{Seq: seq, Nonce: uint64(seq), Bytes: size}); err != nil {
			return err
		}
		l.Promise(Promise{What: pack, N: uint64(seq), M: uint64(size)})
	}
	return nil
}

// judgePacks checks that all that was said of packs is there, and the number of
// none is given again.
func (w *logWork) judgePacks(l *Life, log *wal.Log) error {
	if w.packs == 0 {
		return nil
	}
	there := map[uint64]wal.Pack{}
	for _, p := range log.Packs() {
		there[uint64(p.Seq)] = p
	}
	for _, p := range l.Promises() {
		if p.What != pack {
			continue
		}
		got, ok := there[p.N]
		if !ok || p.M > 0 && (!got.Sealed || got.Bytes != int64(p.M)) || got.Nonce != p.N {
			return fmt.Errorf("pack %d of %d bytes was listed, and is %+v", p.N, p.M, got)
		}
		if uint64(log.HighWater().Pack) < p.N {
			return fmt.Errorf("pack %d was listed, and the highest number is %d", p.N, log.HighWater().Pack)
		}
	}
	return nil
}

// rest lets the manifest vouch for the end, or does not wait for it for long.
func (w *logWork) rest(log *wal.Log) {
	before := log.Stats().ManifestEdits
	for range 40 {
		tick := time.NewTimer(100 * time.Microsecond)
		<-tick.C
		if log.Stats().ManifestEdits > before {
			return
		}
	}
}

// between is what a life does between its groups.
func (w *logWork) between(l *Life, log *wal.Log) error {
	if w.quiet {
		w.rest(log)
	}
	return w.editPacks(l, log)
}

// over ends a process: it closes, or is killed.
func over(l *Life, log *wal.Log, closes, restarts bool) error {
	var err error
	if closes {
		err = l.refused(log.Close(context.Background()))
	} else {
		l.Kill()
		log.Close(context.Background())
	}
	if restarts {
		l.Restart()
	}
	return err
}
