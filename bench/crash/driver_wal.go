package crash

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"durafs/internal/ballast"
	"durafs/internal/vfs/simdisk"
	"durafs/segment"
	"durafs/wal"
)

// logWork is what a driver of the log does in a life: how many batches, how
// large, how many in flight at a time, and how large its segments are.
type logWork struct {
	batches  int
	bytes    func(lsn uint64) int
	inFlight int
	segment  int64
	// footers says that the footers of sealed segments stand for their batches.
	footers bool
	// lives is into how many processes the first life is cut, each closed but
	// for the last; with kills each other one is killed instead.
	lives int
	kills bool
	// pad is wal.Options.PadBytes. Behind each group packs edits of the manifest
	// are made, and with quiet it comes to vouch for the end.
	pad   int64
	packs int
	quiet bool
	// again lets each other batch have the same bytes in every life, as a client
	// that asks again sends them.
	again bool

	bodies sync.Map // by LSN and life: they are compared in every state
}

// Append is an append storm: groups that form while others are written.
func Append() *Driver {
	w := logWork{batches: 24, inFlight: 3, segment: 8 << 12, lives: 1, bytes: func(lsn uint64) int { return 40 + int(lsn*577%1400) }}
	return w.driver("append", "groups of batches that form while others are written")
}

// Roll fills segments, so that new ones are made, listed and old ones sealed,
// over processes that end well.
func Roll() *Driver {
	w := logWork{batches: 24, inFlight: 2, segment: 4 << 12, lives: 2, bytes: func(uint64) int { return 1500 }}
	return w.driver("roll", "segments that are filled, listed, sealed; a close and an open between")
}

func (w *logWork) driver(name, doc string) *Driver {
	return &Driver{
		Name: name, Doc: doc, Live: w.live, Judge: w.judge, Rotten: w.rotten, Ballasts: w.ballast(),
		Explore: simdisk.Explore{HeadBytes: []int64{segment.FrameHeaderBytes - 1, segment.FrameHeaderBytes, segment.FrameHeaderBytes + 1}},
	}
}

// ballast pays for an open: a segment, what is carried on, and a manifest.
func (w *logWork) ballast() map[string]int64 {
	return map[string]int64{"/wal/" + ballast.Name: 2*w.segment + 2*manifestBytes}
}

// The promises of a log: "tried" N batches by life M, "have" N batches whose
// chain of checksums is M, and "answered" for N batches. "ends" says that the
// log of the lives before M ended with N: what they wrote behind it was cut, and
// must not come back.
const (
	tried    = "tried"
	have     = "have"
	answered = "answered"
	ends     = "ends"
)

// logModel is what may and must be in a log.
type logModel struct {
	tried []uint64 // by life, the highest LSN that it tried
	have  uint64
	chain uint64
	// atLeast so many are there, also where have is less.
	atLeast uint64
}

func modelOfLog(promises []Promise) *logModel {
	m := &logModel{}
	for _, p := range promises {
		switch p.What {
		case tried:
			for uint64(len(m.tried)) <= p.M {
				m.tried = append(m.tried, 0)
			}
			m.tried[p.M] = p.N
		case have:
			m.have, m.chain = p.N, p.M
			m.atLeast = max(m.atLeast, p.N)
		case answered:
			m.atLeast = max(m.atLeast, p.N)
		case ends:
			for life := range min(int(p.M), len(m.tried)) {
				m.tried[life] = min(m.tried[life], p.N)
			}
		}
	}
	return m
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// opened is a log that was opened and judged.
type opened struct {
	log    *wal.Log
	chains []uint64 // by LSN, over all batches up to it
}

func (o *opened) last() uint64 { return uint64(len(o.chains) - 1) }

// body is what the batch with this LSN holds when this life writes it.
func (w *logWork) body(lsn uint64, life int) []byte {
	if w.again && lsn%2 == 0 {
		life = 0
	}
	key := [2]uint64{lsn, uint64(life)}
	if b, ok := w.bodies.Load(key); ok {
		return b.([]byte)
	}
	b := fmt.Appendf(make([]byte, 0, w.bytes(lsn)+64), "batch %d of life %d ", lsn, life)
	for i := 0; len(b) < w.bytes(lsn); i++ {
		b = append(b, byte('a'+(i*7+int(lsn)+life)%26))
	}
	w.bodies.Store(key, b)
	return b
}

func (w *logWork) options(l *Life) wal.Options {
	o := wal.Options{
		FS: l.Disk, Dir: "/wal", StoreID: [16]byte{1, 2, 3}, SegmentBytesMax: w.segment, BallastBytes: -1,
		PadBytes: w.pad, ManifestBytes: manifestBytes, Salt: l.salts(),
	}
	if w.quiet {
		o.QuietAfter = time.Millisecond
	}
	if l.full != nil {
		o.SpaceRetryMax = spaceRetry
		for _, bytes := range w.ballast() {
			o.BallastBytes = bytes
		}
	}
	return o
}

// open opens the log and holds it against what was promised.
func (w *logWork) open(l *Life) (*opened, error) {
	m := modelOfLog(l.Promises())
	o := &opened{chains: make([]uint64, 1, w.batches+16)}
	var wrong error
	options, kept := w.options(l), &sums{w: w, m: m, o: o}
	if w.footers {
		options.Derived = kept
	}
	log, _, err := wal.Open(context.Background(), options, func(f wal.Frame) error {
		if wrong = w.judgeFrame(m, o, f, l.Depth); wrong != nil {
			return wrong
		}
		chain := crc32.Update(uint32(o.chains[o.last()]), castagnoli, f.Payload)
		o.chains = append(o.chains, uint64(chain))
		return nil
	})
	if wrong = errors.Join(wrong, kept.wrong); wrong != nil {
		return nil, wrong
	}
	if err != nil {
		return nil, &openError{err}
	}
	o.log, kept.log = log, log
	if o.last() < m.atLeast || o.chains[m.have] != m.chain {
		return o, fmt.Errorf("%d batches were promised, and not exactly these are there: %d", m.atLeast, o.last())
	}
	l.Promise(Promise{What: have, N: o.last(), M: o.chains[o.last()]}) // it was shown
	l.Promise(Promise{What: ends, N: o.last(), M: uint64(l.Depth)})
	return o, w.judgePacks(l, log)
}

// openError is an open that failed. With faults that is no fault of the store.
type openError struct{ err error }

func (e *openError) Error() string { return "open: " + e.err.Error() }
func (e *openError) Unwrap() error { return e.err }

func (w *logWork) judgeFrame(m *logModel, o *opened, f wal.Frame, depth int) error {
	lsn := o.last() + 1
	if f.LSN != lsn {
		return fmt.Errorf("LSN %d follows %d", f.LSN, lsn-1)
	}
	for life, to := range m.tried {
		if lsn <= to && string(f.Payload) == string(w.body(lsn, life)) {
			return nil
		}
	}
	return fmt.Errorf("LSN %d is %.40q, which nobody wrote", lsn, f.Payload)
}

// judge opens the log and ends.
func (w *logWork) judge(l *Life) error {
	_, err := w.open(l)
	return allowed(l, err) // nothing runs yet, and what is open ends with the disk
}

// allowed is nil for what may fail where calls fail.
func allowed(l *Life, err error) error {
	var open *openError
	if err == nil || !l.Faulty || !errors.As(err, &open) {
		return err
	}
	l.notOpened(open.err)
	return nil
}

// live leads a life.
func (w *logWork) live(l *Life) error {
	lives, each := 1, 4
	if l.Depth == 0 {
		lives, each = w.lives, w.batches/w.lives
	}
	for i := range lives {
		last := i == lives-1
		closes := last && l.Closes || !last && !(w.kills && i%2 == 1)
		if err := w.process(l, each, closes, !last && l.Depth == 0); err != nil {
			return allowed(l, err)
		}
	}
	return nil
}

// published is the owner of the log's values: it checks that they come in
// order.
type published struct {
	l    *Life // nil: it promises nothing
	last uint64
	// chain is that of all up to last.
	chain uint64
	bad   error
}

func (p *published) Publish(batches []*wal.Batch) {
	for _, b := range batches {
		if b.LSN != p.last+1 {
			p.bad = fmt.Errorf("LSN %d was published after %d", b.LSN, p.last)
		}
		p.last, p.chain = b.LSN, uint64(crc32.Update(uint32(p.chain), castagnoli, b.Body))
	}
	if p.l == nil {
		return
	}
	// What is published is visible, and no crash may take it back.
	p.l.Promise(Promise{What: have, N: p.last, M: p.chain})
}

func (p *published) Reset() {}

// process is one process: it opens, appends n batches and closes, or is killed.
// restarts says that another one follows in this life.
func (w *logWork) process(l *Life, n int, closes, restarts bool) error {
	o, err := w.open(l)
	if err != nil {
		return err
	}
	state := &published{l: l, last: o.last(), chain: o.chains[o.last()]}
	o.log.Start(state)
	err = w.append(l, o, n)
	l.resumes(func() error { return w.append(l, o, 1) })
	err = errors.Join(err, over(l, o.log, closes && (err == nil || l.full != nil), restarts))
	if l.Faulty {
		err = nil
	}
	return errors.Join(err, state.bad)
}

// append submits batches, some at a time, and promises each group that is
// acknowledged. After an error the rest is tried all the same.
func (w *logWork) append(l *Life, o *opened, n int) error {
	ctx := context.Background()
	var failed error
	for i := 0; i < n; {
		var tickets []wal.Ticket
		for range min(w.inFlight, n-i) {
			tickets = append(tickets, o.log.Submit(wal.Ordinary, func(lsn uint64) wal.Decision {
				l.Promise(Promise{What: tried, N: lsn, M: uint64(l.Depth)})
				body := w.body(lsn, l.Depth)
				return wal.Decision{Batches: []*wal.Batch{{Run: 1, Count: 1, Body: body, BodyCRC: wal.Checksum(body)}}}
			}))
			i++
		}
		// A request that comes a second time is answered from what was decided
		// on the first, and no sooner than that is durable.
		var first uint64
		again := o.log.Submit(wal.Ordinary, func(lsn uint64) wal.Decision {
			first = lsn - 1
			return wal.Decision{After: first}
		})
		if l.refused(again.Wait(ctx)) == nil {
			l.Promise(Promise{What: answered, N: first})
		}
		for _, t := range tickets {
			err := l.refused(t.Wait(ctx))
			if err != nil {
				failed = err
				continue
			}
			if t.LSN() != o.last()+1 {
				return fmt.Errorf("LSN %d is acknowledged after %d", t.LSN(), o.last())
			}
			chain := crc32.Update(uint32(o.chains[o.last()]), castagnoli, w.body(t.LSN(), l.Depth))
			o.chains = append(o.chains, uint64(chain))
			l.Promise(Promise{What: have, N: t.LSN(), M: uint64(chain)})
		}
		if err := l.refused(w.between(l, o.log)); err != nil {
			failed = err
		}
	}
	return failed
}
