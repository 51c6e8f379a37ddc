package runs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"durafs/internal/vfs"
	"durafs/projection"
)

// TestHistoryRandom: the history of a random run, over several segments, is the
// same bytes as long as it lives, at its next turn, after a restart, with
// footers and with every batch replayed, and from a copy.
func TestHistoryRandom(t *testing.T) {
	base := fastDir(t)
	tries := 20
	if testing.Short() {
		tries = 5
	}
	checks(t, tries)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "histories")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &world{t: t, fs: vfs.OS, dir: dir, ledger: new(memLedger), segmentBytes: 256 << 10}
		w.mustOpen()
		defer w.close()
		a := w.start(StartRequest{ID: "exec_s"})
		calls, open := a.live(rt, 0, nil, rapid.IntRange(10, 60).Draw(rt, "steps"))
		seq, got := w.info(a.id).LastSeq, a.history(HistoryRequest{})
		if n := strings.Count(got, "\n"); n != int(calls) {
			rt.Fatalf("%d calls are told, of %d", n, calls)
		}
		same := func(when string) {
			if then := a.history(HistoryRequest{Upto: seq}); then != got {
				rt.Errorf("%s it is another:\n%s\n%s", when, then, got)
			}
		}
		same("live")
		for range rapid.IntRange(0, 3).Draw(rt, "turns") {
			calls, open = a.live(rt, calls, open, 5)
			same("at the next turn")
		}
		for _, replays := range []bool{false, true, false} {
			w.replays = replays
			w.reopen()
			same(fmt.Sprint("after a restart, replayed: ", replays))
		}
		for call := calls; call > 0; call-- {
			if !open[call] {
				b, _, err := w.copy(a.id, projection.CopyBranch, call, StartRequest{ID: "exec_c"})
				if err != nil {
					rt.Fatal(err)
				}
				w.checkCopy(a, b)
				break
			}
		}
	})
}
