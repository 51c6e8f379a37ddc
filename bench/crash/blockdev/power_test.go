package blockdev_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"durafs/bench/crash/blockdev"
)

const (
	// livesSteps is how much each agent does in a life that is cut.
	livesSteps = 56
	// cutsWanted is at how many moments of a life the power goes.
	cutsWanted  = 32
	mixesAtCuts = 2
)

// shorter is n, or a part of it where tests are to be short, as under the race
// detector.
func shorter(n int) int {
	if testing.Short() {
		return n / 8
	}
	return n
}

// TestL4 records a life of a store on a real ext4, the writes and flushes of the
// kernel, and cuts the power in it: at moments all over it the disk is mounted
// as it may be then, and opened.
func TestL4(t *testing.T) {
	began := time.Now()
	j := newJudges(t)
	cuts := 0
	for life := uint64(0); life == 0 || time.Now().Before(until(began)) && !j.failed.Load(); life++ {
		n, err := cutLife(newMachine(t), j, rand.New(rand.NewPCG(*seed, life)))
		if cuts += n; err != nil {
			t.Fatal(err)
		}
	}
	j.report(began)
	if cuts < shorter(cutsWanted)/2 {
		t.Errorf("only %d cuts", cuts)
	}
}

// cutLife leads a life and cuts it. An error is of the life.
func cutLife(m *machine, j *judges, rng *rand.Rand) (cuts int, err error) {
	p := m.start("a", max(stepsPerRun, shorter(livesSteps)))
	text, err := p.listen(nil)
	p.kill()
	if err == nil && text != "" {
		err = fmt.Errorf("without any fault: %s", text)
	}
	if err != nil {
		return 0, err
	}
	record := m.dev.Record()
	stride := max(1, len(record.Events)/shorter(cutsWanted))
	next := rng.IntN(stride)
	for c := range record.Cuts(0) {
		if c.Events < next {
			continue
		}
		next += 1 + rng.IntN(2*stride)
		cuts++
		j.cut(m, c, mixesAtCuts, rng, "no fault")
	}
	m.t.Logf("%d writes and flushes, %d acknowledged, %d cuts", len(record.Events)-len(m.promises), p.acks, cuts)
	return cuts, nil
}

// TestLie lets the device lose what it said it had flushed. If the judges find
// nothing then, they find nothing.
func TestLie(t *testing.T) {
	if testing.Short() {
		t.Skip("the judges are put to the test without -short")
	}
	m := newMachine(t)
	p := m.start("a", livesSteps/4)
	_, err := p.listen(nil)
	p.kill()
	if err != nil {
		t.Fatal(err)
	}
	record := m.dev.Record()
	for i := m.promises[len(m.promises)/2].at; i < len(record.Events); i++ {
		if record.Events[i].Kind == blockdev.Flush {
			record.Events[i] = blockdev.Event{Kind: blockdev.Note}
		}
	}
	j := newJudges(t)
	var found error
	j.found = func(_ state, err error) { found = err }
	j.cut(m, record.End(), 0, nil, "no fault")
	if j.end(); found == nil || !strings.Contains(found.Error(), "is gone") {
		t.Errorf("the judges say: %v", found)
	}
}
