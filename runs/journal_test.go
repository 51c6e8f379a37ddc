package runs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestJournalRing: beyond its bounds the oldest rows leave, ordinary ones
// first, and an undone row leaves the journal as if it had never been there.
func TestJournalRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var j journal
		var model []journalPlace // all rows but undone ones, in order
		lsn := uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0: // undo one of the newest
				at := len(model) - 1 - rapid.IntRange(0, 5).Draw(t, "back")
				if at < 0 || model[at].once || !j.has(model[at].lsn) {
					continue
				}
				lsn++
				if !j.remove(model[at].lsn, lsn) {
					t.Fatal("a row that is there cannot be removed")
				}
				model = slices.Delete(model, at, at+1)
			default:
				for range rapid.IntRange(1, 40).Draw(t, "rows") {
					lsn++
					p := journalPlace{lsn: lsn, bytes: uint32(rapid.SampledFrom([]int{50, 400, JournalRowBytesMax}).Draw(t, "bytes")), once: rapid.Bool().Draw(t, "once")}
					ends := len(j.ends.live())
					j.add(p)
					model = append(model, p)
					if p.once {
						ends++
					}
					if len(j.ends.live()) < ends && len(j.ordinary.live()) > 0 {
						t.Fatal("an end has left before an ordinary row")
					}
				}
			}
			have := slices.Concat(j.ordinary.live(), j.ends.live())
			bytes := 0
			for _, p := range have {
				bytes += int(p.bytes)
			}
			if len(have) > JournalRowsMax || bytes > JournalBytesMax || bytes != j.bytes || j.version != lsn {
				t.Fatalf("%d rows of %d bytes, said to be %d", len(have), bytes, j.bytes)
			}
			for _, part := range [][]journalPlace{j.ordinary.live(), j.ends.live()} {
				// What is there is the newest of its kind: nothing between was lost.
				var same []journalPlace
				for _, p := range model {
					if len(part) > 0 && p.once == part[0].once {
						same = append(same, p)
					}
				}
				if len(part) > 0 && !slices.Equal(part, same[len(same)-len(part):]) {
					t.Fatalf("the ring has a gap")
				}
			}
		}
	})
}

// TestJournalUndo: whatever leaves for an admission's row comes back when that
// is undone.
func TestJournalUndo(t *testing.T) {
	var j journal
	for lsn := uint64(1); lsn <= JournalRowsMax; lsn++ {
		j.add(journalPlace{lsn: lsn, bytes: 100, once: lsn%2 == 0})
	}
	before := slices.Concat(j.ordinary.live(), j.ends.live())
	j.add(journalPlace{lsn: 501, bytes: 3000})
	if j.has(1) {
		t.Fatal("nothing has left")
	}
	if !j.remove(501, 502) {
		t.Fatal("it is not there")
	}
	if after := slices.Concat(j.ordinary.live(), j.ends.live()); !slices.Equal(before, after) {
		t.Errorf("the journal is not as it was: %v", after)
	}
}

func (w *world) journal(target string) (rows []string) {
	w.t.Helper()
	list, err := w.s.Journal(owner, target, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range list {
		_, rest, _ := strings.Cut(string(r.JSON), `,"type":`)
		rows = append(rows, rest)
	}
	return rows
}

// TestTargets: a target is enrolled by an owner; what comes late to one that is
// not any more, or anew, goes to master and says so.
func TestTargets(t *testing.T) {
	w, _ := newTimed(t)
	_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{Target: "agent:bob"})
	wantCode(t, err, TargetNotEnrolled)
	_, err = w.s.Enrol(ctx, Caller{UID: 7}, "agent:bob", true)
	wantCode(t, err, NotOwner)
	if got, err := w.s.Enrol(ctx, owner, "agent:bob", true); err != nil || got != (Target{Name: "agent:bob", Generation: 1, Enrolled: true}) {
		t.Fatalf("%+v, %v", got, err)
	}
	a := w.start(StartRequest{ID: "exec_a", Target: "agent:bob"})
	b := w.start(StartRequest{ID: "exec_b", Target: "agent:bob"})
	a.mustSettle("")
	want := `["started","run":"exec_a"} "started","run":"exec_b"} "terminal","run":"exec_a","status":"success","summary":"it is success"}]`
	if got := fmt.Sprint(w.journal("agent:bob")); got != want {
		t.Errorf("the journal is %s", got)
	}
	for _, enrolled := range []bool{false, true} {
		if _, err := w.s.Enrol(ctx, owner, "agent:bob", enrolled); err != nil {
			t.Fatal(err)
		}
	}
	b.mustSettle("")
	for range 2 {
		if got := fmt.Sprint(w.journal("agent:bob")); got != want {
			t.Errorf("the journal is %s", got)
		}
		if got := fmt.Sprint(w.journal("master")); !strings.Contains(got, `"terminal","run":"exec_b"`) || !strings.Contains(got, `"target":"agent:bob","note":`) {
			t.Errorf("master's journal is %s", got)
		}
		w.reopen()
	}
	c := w.start(StartRequest{Target: "agent:bob"})
	w.reopen()
	if _, err := w.s.Enrol(ctx, owner, "agent:bob", false); err != nil {
		t.Fatal(err)
	}
	_, err = w.prepare(c.id, PrepareRequest{Force: true})
	wantCode(t, err, TargetNotEnrolled)
	for name, want := range map[string]string{
		"site:HTTPS://Example.COM:443/": "site:https://example.com", "site:http://a.b:8080": "site:http://a.b:8080", "site:http://[::1]:80": "site:http://[::1]",
		"agent:x": "agent:x", "background:y z": "background:y z", "master": "master",
		"site:ftp://a": "", "site:https://a/b": "", "site:https://u@a": "", "site:https://a?q": "", "site:a": "", "site:https://a#": "", "agent:": "", "x": "", "": "", "agent:a/b": "",
	} {
		if got, err := ParseTarget(name); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}
}
