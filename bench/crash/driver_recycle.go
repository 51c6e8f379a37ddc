package crash

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"strings"
	"time"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
	"durafs/segment"
	"durafs/wal"
)

// recycleWork fills segments, drops what is sealed, and fills the same files
// again. It also lets the log become quiet, so that the manifest vouches for
// its end.
type recycleWork struct {
	logWork
	steps int // groups of one batch each, with a drop after each
	// lends gives each segment a second name before it is dropped, as a backup
	// that links does.
	lends bool
}

// Recycle drops segments and writes into their files again.
func Recycle() *Driver {
	w := recycleWork{
		logWork: logWork{inFlight: 1, segment: 3 << 12, bytes: func(lsn uint64) int { return 2600 + int(lsn%3)*8 }},
		steps:   18,
	}
	return w.driver("recycle", "segments that are dropped and written again, and a log that becomes quiet")
}

// Lent is Recycle beside somebody who has links to the segments: what he has
// stays as it is.
func Lent() *Driver {
	w := recycleWork{
		logWork: logWork{inFlight: 1, segment: 3 << 12, bytes: func(lsn uint64) int { return 2600 + int(lsn%3)*8 }},
		steps:   12, lends: true,
	}
	return w.driver("lent", "segments that are dropped while somebody else has a link to them")
}

func (w *recycleWork) driver(name, doc string) *Driver {
	return &Driver{
		Name: name, Doc: doc, Ballasts: w.ballast(),
		Live: w.live, Judge: func(l *Life) error { _, err := w.open(l); return allowed(l, err) },
		Explore: simdisk.Explore{HeadBytes: []int64{segment.FrameHeaderBytes}},
	}
}

// The promises of a log that drops: what is to be dropped, and was, besides what
// was tried and is there. N is an LSN.
const (
	dropping = "dropping"
	dropped  = "dropped"
)

// open opens the log and holds it against what was promised: it begins behind
// what was dropped and nowhere else, and goes on without a gap to what is there.
func (w *recycleWork) open(l *Life) (*opened, error) {
	m := modelOfLog(l.Promises())
	bases, must := map[uint64]bool{0: true}, uint64(0)
	for _, p := range l.Promises() {
		switch p.What {
		case dropping:
			bases[p.N] = true
		case dropped:
			must = p.N
		}
	}
	o, begun := &opened{chains: make([]uint64, 1)}, false
	var wrong error
	log, rec, err := wal.Open(context.Background(), w.options(l), func(f wal.Frame) error {
		if base := f.LSN - 1; !begun {
			if base < must || !bases[base] {
				wrong = fmt.Errorf("the log begins behind LSN %d; %d was dropped", base, must)
			}
			o.chains = make([]uint64, f.LSN)
		}
		begun = true
		if wrong == nil {
			wrong = w.judgeFrame(m, o, f, l.Depth)
		}
		o.chains = append(o.chains, 0)
		return wrong
	})
	switch {
	case wrong != nil:
		return nil, wrong
	case err != nil:
		return nil, &openError{err}
	case max(o.last(), log.HighWater().Dropped) < m.have:
		return nil, fmt.Errorf("%d batches were promised, %d are there: %+v", m.have, o.last(), rec)
	}
	if o.last() < log.HighWater().Dropped {
		o.chains = make([]uint64, log.HighWater().Dropped+1)
	}
	o.log = log
	l.Promise(Promise{What: have, N: o.last()})
	return o, judgeLent(l)
}

func (w *recycleWork) options(l *Life) wal.Options {
	o := w.logWork.options(l)
	o.QuietAfter = time.Millisecond
	return o
}

func (w *recycleWork) live(l *Life) error {
	o, err := w.open(l)
	if err != nil {
		return allowed(l, err)
	}
	state := &published{last: o.last()}
	o.log.Start(state)
	err = w.work(l, o)
	l.resumes(func() error { return w.append(l, o, 1) })
	l.Kill()
	o.log.Close(context.Background())
	if l.Faulty {
		err = nil
	}
	return errors.Join(err, state.bad)
}

// work appends and drops, until on an empty disk some files were used twice.
func (w *recycleWork) work(l *Life, o *opened) error {
	steps := 3
	if l.Depth == 0 {
		steps = w.steps
	}
	for i := range steps {
		if err := w.append(l, o, 1); err != nil {
			return err
		}
		if i%3 == 2 {
			if err := w.lend(l); err != nil {
				return err
			}
			if err := w.drop(l, o.log); err != nil {
				return err
			}
		}
	}
	if l.Depth > 0 || l.Faulty || w.lends {
		return nil
	}
	if o.log.Stats().Recycled == 0 {
		return errors.New("no segment was used again")
	}
	return nil
}

// lentTo is where the links are; lent is the promise that the file Text there
// has a header with the checksum M, which never changes.
const (
	lentTo = "/lent"
	lent   = "lent"
)

// lend gives each segment a second name, durably.
func (w *recycleWork) lend(l *Life) error {
	if !w.lends || l.Faulty {
		return nil
	}
	if err := l.Mkdir(lentTo); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	names, err := l.ReadDir("/wal")
	if err != nil {
		return err
	}
	var made []Promise
	for _, name := range names {
		if !strings.HasSuffix(name, ".seg") || l.Link("/wal/"+name, lentTo+"/"+name) != nil {
			continue // it is gone, or was lent before
		}
		if sum, err := headerSum(l.Disk, lentTo+"/"+name); err == nil {
			made = append(made, Promise{What: lent, M: sum, Text: name})
		}
	}
	for _, dir := range []string{lentTo, "/"} {
		if err := syncDir(l.Disk, dir); err != nil {
			return err
		}
	}
	for _, p := range made {
		l.Promise(p)
	}
	return nil
}

func syncDir(fsys vfs.FS, name string) error {
	d, err := fsys.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// headerSum is the checksum of a segment's header.
func headerSum(fsys vfs.FS, name string) (uint64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make([]byte, simdisk.SectorBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return 0, err
	}
	return uint64(crc32.Checksum(b, castagnoli)), nil
}

// judgeLent checks that what somebody has a link to is what it was.
func judgeLent(l *Life) error {
	for _, p := range l.Promises() {
		if p.What != lent {
			continue
		}
		if sum, err := headerSum(l.Disk, lentTo+"/"+p.Text); err != nil || sum != p.M {
			return fmt.Errorf("%s was lent and is another one now (%w)", p.Text, err)
		}
	}
	return nil
}

// drop drops what is sealed by then.
func (w *recycleWork) drop(l *Life, log *wal.Log) error {
	// Sealing is behind the appends; a moment lets it come.
	for range 20 {
		tick := time.NewTimer(100 * time.Microsecond)
		<-tick.C
		// How far a Drop would go nobody can say before: all up to here may be.
		for lsn := log.HighWater().Dropped; lsn <= log.Durable(); lsn++ {
			l.Promise(Promise{What: dropping, N: lsn})
		}
		n, err := log.Drop(math.MaxUint32)
		if l.refused(err) != nil {
			return err
		}
		if n > 0 {
			l.Promise(Promise{What: dropped, N: log.HighWater().Dropped})
			return nil
		}
	}
	return nil
}
