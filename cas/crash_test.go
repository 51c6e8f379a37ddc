package cas

import (
	"slices"
	"sync"
	"testing"

	"durafs/internal/vfs/simdisk"
)

// left is a chunk store as a process left it: the disk, the ledger, and what was
// acknowledged.
type left struct {
	disk  *simdisk.Disk
	packs []Pack
	high  uint32
	acked []Ref
}

func (c *left) ledger() *fakeLedger { return &fakeLedger{packs: slices.Clone(c.packs), high: c.high} }

// logbook is a ledger that notes what was promised after how many calls.
type logbook struct {
	disk *simdisk.Disk

	// mu guards what follows.
	mu    sync.Mutex
	fake  *fakeLedger
	acked []Ref
	at    []int // calls that were recorded at each entry
	lines []left
}

func (l *logbook) Packs() []Pack { return l.fake.Packs() }

func (l *logbook) AddPack(p Pack) error { return l.note(func() error { return l.fake.AddPack(p) }) }

func (l *logbook) SealPack(p Pack) error { return l.note(func() error { return l.fake.SealPack(p) }) }

func (l *logbook) ack(ref Ref) {
	l.note(func() error { l.acked = append(l.acked, ref); return nil })
}

func (l *logbook) note(fn func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := fn()
	l.at = append(l.at, l.disk.Recorded())
	l.lines = append(l.lines, left{packs: l.fake.Packs(), high: l.fake.highest(), acked: slices.Clone(l.acked)})
	return err
}

// in is what a power cut left: the state of the disk, and what was promised by
// then.
func (l *logbook) in(s *simdisk.State) left {
	c := l.lines[0]
	for i, at := range l.at {
		if at <= s.Calls {
			c = l.lines[i]
		}
	}
	c.disk = s.Disk()
	return c
}

// newLogbook begins with what is there.
func newLogbook(c left) *logbook {
	l := &logbook{disk: c.disk, fake: c.ledger(), acked: c.acked}
	l.note(func() error { return nil })
	return l
}

// judge opens what is left, reads all that was acknowledged, and verifies it;
// with o.Ledger as it is given.
func (c *left) judge(t *testing.T, o Options, datas map[ID][]byte) {
	t.Helper()
	o.Used, o.SeqAfter = used(c.acked...), c.high
	s, rec, err := Open(ctx0, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Damage)+len(rec.Missing)+len(rec.Orphans) > 0 {
		t.Fatalf("recovery %+v", rec)
	}
	for _, ref := range c.acked {
		wantBytes(t, s, ref, datas[ref.ID])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(ctx0, c.disk, "/", o.Ledger.Packs(), false, nil, func(f Finding) { t.Fatalf("verify: %v", f) }); err != nil {
		t.Fatal(err)
	}
}

// After a power cut at any point what was acknowledged is there, also when the
// power is cut again while the store opens; and verify has nothing to say. The
// trees of chunks have several nodes here, which is what bench/crash does not
// have.
func TestPowerCut(t *testing.T) {
	disk := simdisk.New(simdisk.Options{})
	journal := disk.Record()
	book := newLogbook(left{disk: disk})
	o := faultOptions(t, &fakeLedger{}, "/", disk)
	o.Ledger = book
	s := open(t, o)
	datas := map[ID][]byte{}
	for i, n := range []int{20_000, 50_000, 17_000, 40_000} {
		data := noise(uint64(200+i), n)
		ref := mustPut(t, s, data)
		datas[ref.ID] = data
		book.ack(ref)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	once, twice, every := 0, 0, 4
	if testing.Short() {
		every = 16
	}
	for s := range journal.Explore(simdisk.Explore{Every: every, Mixes: 2, HeadBytes: []int64{63, 64, 65}}).States() {
		once++
		c := book.in(s)
		o := faultOptions(t, &fakeLedger{}, "/", c.disk)
		if once%12 > 0 || testing.Short() {
			o.Ledger = c.ledger()
			c.judge(t, o, datas)
			continue
		}
		inner, again := c.disk.Record(), newLogbook(c)
		o.Ledger = again
		c.judge(t, o, datas)
		for s := range inner.Explore(simdisk.Explore{Every: 6, Mixes: 1}).States() {
			twice++
			c := again.in(s)
			o := faultOptions(t, &fakeLedger{}, "/", c.disk)
			o.Ledger = c.ledger()
			c.judge(t, o, datas)
		}
	}
	t.Logf("%d states, and %d after a second power cut", once, twice)
	if once < 40 {
		t.Errorf("only %d states", once)
	}
}
