package blockdev_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"durafs/bench/crash/blockdev"
)

// fails is what a round lets fail, once.
type fails struct {
	what string
	is   func(e blockdev.Event) bool
	err  error
	done bool
	// times is how often in a row; 0: once.
	times int
}

// journalMagic begins the blocks of ext4's journal that describe others.
var journalMagic = []byte{0xc0, 0x3b, 0x39, 0x98}

func writes(text string) func(blockdev.Event) bool {
	return func(e blockdev.Event) bool { return e.Kind == blockdev.Write && bytes.Contains(e.Data, []byte(text)) }
}

func isFlush(e blockdev.Event) bool { return e.Kind == blockdev.Flush }

func isJournal(e blockdev.Event) bool {
	return e.Kind == blockdev.Write && bytes.HasPrefix(e.Data, journalMagic)
}

// allFails is what there is, in the order of the rounds.
var allFails = []fails{
	{what: "a write of a row", is: writes(rowMark), err: syscall.EIO},
	{what: "a flush", is: isFlush, err: syscall.EIO},
	{what: "a write of a payload", is: writes(payloadMark), err: syscall.EIO},
	{what: "a write of the journal", is: isJournal, err: syscall.EIO},
	{what: "a write of a row, which was done", is: writes(rowMark), err: syscall.EIO, done: true},
	{what: "any write", is: func(e blockdev.Event) bool { return e.Kind == blockdev.Write }, err: syscall.EIO},
	{what: "all writes for a while, for want of space", is: func(e blockdev.Event) bool { return e.Kind == blockdev.Write }, err: syscall.ENOSPC, times: 8},
}

const (
	// faultySteps are those of each agent in the life with the fault, and laterSteps
	// in the one after it.
	faultySteps, laterSteps = 42, 16
	mixesAfterFault         = 6
	cutsLater               = 5
	// ackedBefore is how much is acknowledged at least before the fault, and nthMax
	// bounds which write or flush of its kind it hits then.
	ackedBefore, nthMax = 20, 4
	roundsShort         = 1
)

// TestL5 lets the device answer one write or flush with an error. The process
// goes on for a while and is killed; another one starts on the same mount, with
// the page cache as it is, shows what it finds, and goes on; then the power goes.
// What either acknowledged must be there, and all that the second one showed.
func TestL5(t *testing.T) {
	began := time.Now()
	j := newJudges(t)
	for round := 0; round < len(allFails) || time.Now().Before(until(began)) && !j.failed.Load(); round++ {
		if testing.Short() && round >= roundsShort {
			break
		}
		f := allFails[round%len(allFails)]
		t.Run(fmt.Sprintf("%d %s", round, f.what), func(t *testing.T) {
			err := faultyRound(newMachine(t), j, f, rand.New(rand.NewPCG(*seed, uint64(round))))
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	j.report(began)
}

// faultyRound leads two lives, the first with a fault, and cuts the second. An
// error is what the second process shows, or does not.
func faultyRound(m *machine, j *judges, f fails, rng *rand.Rand) error {
	p := m.start("a", faultySteps)
	after, nth := ackedBefore+rng.IntN(ackedBefore), rng.IntN(nthMax)
	answer, err := p.listen(func(msg message) {
		if msg.Op == opAcked && p.acks == after {
			m.inject(f, nth)
		}
	})
	p.kill()
	if err != nil {
		return err
	}
	m.dev.SetFault(nil)
	restarted := m.dev.Events()
	q := m.start("b", laterSteps)
	text, err := q.listen(nil)
	q.kill()
	if err != nil {
		return err
	}
	record := m.dev.Record()
	n := failed(record)
	m.t.Logf("%d acknowledged, %d writes or flushes failed (%q); after the restart %d shown, %d more acknowledged (%q)",
		p.acks, n, answer, len(q.shown), q.acks, text)
	if n == 0 {
		m.t.Fatal("nothing failed: the round shows nothing")
	}
	if p, is := m.missing(restarted, q.shown); q.shown != nil && is {
		return fmt.Errorf("%s was %s, and the restarted process does not show it", p.key, p.how)
	}
	if q.shown == nil && !readOnly(text) {
		return fmt.Errorf("the restarted process did not open: %s", text)
	}
	story := "failed: " + f.what
	stride := max(1, (len(record.Events)-restarted)/max(1, shorter(cutsLater)))
	for c := range record.Cuts(restarted) {
		if (c.Events-restarted)%stride == 0 {
			j.cut(m, c, 1, rng, story)
		}
	}
	j.cut(m, record.End(), shorter(mixesAfterFault), rng, story)
	return nil
}

// inject lets the fault happen from the n-th write or flush of its kind on.
func (m *machine) inject(f fails, n int) {
	times := max(1, f.times)
	m.dev.SetFault(func(_ int, e blockdev.Event) *blockdev.Fault {
		if !f.is(e) || times == 0 {
			return nil
		}
		if n > 0 {
			n--
			return nil
		}
		times--
		return &blockdev.Fault{Err: f.err, Done: f.done}
	})
}

func failed(r blockdev.Record) (n int) {
	for _, e := range r.Events {
		if e.Err != nil {
			n++
		}
	}
	return n
}

// readOnly tells that ext4 has given up: then nothing can be opened for writing
// until the disk is mounted again.
func readOnly(text string) bool {
	return strings.Contains(text, syscall.EROFS.Error()) || strings.Contains(text, syscall.EIO.Error())
}
