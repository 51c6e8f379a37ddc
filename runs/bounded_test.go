package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rot changes a byte of the batch at p, as a disk does.
func (w *world) rot(p place) {
	w.t.Helper()
	names, err := filepath.Glob(filepath.Join(w.dir, "wal", fmt.Sprintf("*%d.seg", p.segment)))
	if err != nil || len(names) != 1 {
		w.t.Fatalf("segment %d: %v, %v", p.segment, names, err)
	}
	f, err := os.OpenFile(names[0], os.O_RDWR, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	at := int64(p.offset) + 80
	if _, err := f.ReadAt(b[:], at); err != nil {
		w.t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], at); err != nil {
		w.t.Fatal(err)
	}
}

// TestDamageOfOne: what cannot be read of one run takes nothing else with it:
// no list of threads, no page, no journal, no watcher.
func TestDamageOfOne(t *testing.T) {
	w := newWorld(t)
	good := w.start(StartRequest{Labels: Labels{"thread": "T"}})
	bad := w.start(StartRequest{Labels: Labels{"thread": "T"}})
	x := w.watch(owner, WatchQuery{})
	w.told(x)
	good.mustClaim("c", "t", "read-only")
	bad.mustClaim("c", "t", "read-only")
	good.mustSettle("good")
	bad.mustSettle("bad")
	w.start(StartRequest{Labels: Labels{"thread": "U"}}).mustSettle("u")
	w.s.mu.RLock()
	messages := w.s.index.threads["T"].messages
	ends := w.s.index.journals["master"].ends.live()
	record := w.s.index.chunks[0].record[2]
	w.s.mu.RUnlock()
	w.rot(messages[1].at)
	w.rot(ends[1].at)
	w.rot(record)

	list, _, err := w.s.Threads(owner, "", 0)
	if err != nil || len(list) != 2 || !list[0].LastAt.IsZero() || list[1].LastAt.IsZero() {
		t.Errorf("threads: %s, %v", mustJSON(list), err)
	}
	page, err := w.s.Thread(owner, "T", 0, 0)
	if err != nil || len(page.Messages) != 2 || page.Messages[0].Text != "good" || len(page.Messages[0].Calls) != 1 || page.Messages[0].Damaged ||
		!page.Messages[1].Damaged || page.Messages[1].Run != bad.id {
		t.Errorf("thread: %s, %v", mustJSON(page), err)
	}
	rows, err := w.s.Journal(owner, "master", 0)
	if err != nil || len(rows) != 6 || strings.Count(string(mustJSON(rows)), `"damaged"`) != 1 {
		t.Errorf("journal: %s, %v", mustJSON(rows), err)
	}
	events := w.told(x)
	for _, a := range []*agent{good, bad} {
		n := 0
		for _, e := range events {
			if e.ID == a.id {
				n++
			}
		}
		if n != 3 { // claimed, settling, terminal
			t.Errorf("%d events of %s", n, a.id)
		}
	}
}

// TestThreadPageIsBounded: a page holds so much and no more, however long
// answers and calls are, and the pages together are the thread.
func TestThreadPageIsBounded(t *testing.T) {
	w := newWorld(t)
	answer := strings.Repeat("a", AnswerBytesMax)
	args := []byte(`"` + strings.Repeat("b", ArgsBytesMax-2) + `"`)
	const runs, calls = 6, 20
	for range runs {
		a := w.start(StartRequest{Labels: Labels{"thread": "T"}})
		for i := range calls {
			_, err := w.s.Claim(ctx, a.c, a.id, ClaimRequest{CallID: fmt.Sprint(i), Name: "t", Args: args})
			if err != nil {
				t.Fatal(err)
			}
		}
		a.mustSettle(answer)
	}
	all, before := 0, uint64(0)
	for pages := 0; pages < 2*runs; pages++ {
		page, err := w.s.Thread(owner, "T", before, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range page.Messages {
			m := &page.Messages[i]
			n += m.bytes()
			if m.Text != answer || !m.MoreCalls || len(m.Calls) == 0 || len(m.Calls) == calls {
				t.Errorf("a message of %d bytes has %d calls", len(m.Text), len(m.Calls))
			}
		}
		if all += len(page.Messages); n > ThreadPageBytesMax {
			t.Errorf("a page of %d bytes", n)
		}
		if before = page.Before; before == 0 {
			break
		}
	}
	if all != runs {
		t.Errorf("the pages have %d messages", all)
	}
	seen := uint64(0)
	for {
		page, err := w.s.Calls(1, seen, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, c := range page {
			if seen++; c.Call != seen || c.Result == nil {
				t.Errorf("call %d comes as %d: %v", seen, c.Call, c.Result)
			}
		}
	}
	if seen != calls {
		t.Errorf("%d calls", seen)
	}
}
