package runs

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"durafs/cas"
	"durafs/internal/vfs"
	"durafs/projection"
)

// shownImages are of each way to store one: inline, in one chunk, in several.
var shownImages = [][]byte{jpeg(1000, 1), jpeg(40_000, 2), jpeg(150_000, 3)}

// claimedWorld is one with an open call, and a disk that can fail from now on.
func claimedWorld(t *testing.T) (*world, *agent, *vfs.Faulty) {
	faulty := vfs.NewFaulty(vfs.OS)
	w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
	w.mustOpen()
	a := w.start(StartRequest{ID: "exec_x"})
	a.mustClaim("c1", "shot", "mutating")
	return w, a, faulty
}

// checkCall holds what is left of the call against what the agent was told:
// there is no outcome, or a whole one with all that it refers to.
func checkCall(t *testing.T, w *world, told *Committed) {
	t.Helper()
	calls, err := w.s.Calls(w.ref("exec_x"), 0, 0)
	if err != nil || len(calls) != 1 {
		t.Fatalf("%v, %d calls", err, len(calls))
	}
	have := calls[0].Result
	switch {
	case have == nil && told != nil:
		t.Error("an acknowledged outcome is gone")
		return
	case have != nil && told != nil && !bytes.Equal(have.Projection, told.Projection):
		t.Errorf("the projection is %s, and was %s", have.Projection, told.Projection)
	}
	shown := 0
	if have != nil {
		p, err := projection.Decode(have.Projection, "exec_x")
		if err != nil {
			t.Fatal(err)
		}
		if shown = len(p.Refs()); shown != 0 && shown != len(shownImages) {
			t.Errorf("it refers to %d images", shown)
		}
	}
	for i, im := range shownImages {
		f, err := w.s.findPayload(uint32(w.ref("exec_x")), projection.ArtifactName(1, i))
		if err != nil || (f != nil) != (shown > 0) {
			t.Fatalf("artifact %d: there %v, referred to %v (%v)", i, f != nil, shown > 0, err)
		}
		if f == nil {
			continue
		}
		if b, err := w.s.readAll(f.ref, 1<<20); err != nil || !bytes.Equal(b, im) || f.ref.ID != cas.Sum(im) {
			t.Errorf("artifact %d: %d bytes, %v", i, len(b), err)
		}
	}
}

// TestCrashInOutcome ends the process at each call that changes the disk while
// an outcome is committed with three images: not made, made in half, and made
// though it failed. What is left is all or nothing, and the tool does not run
// again.
func TestCrashInOutcome(t *testing.T) {
	for _, mode := range vfs.Modes {
		t.Run(mode.String(), func(t *testing.T) {
			for k := 1; ; k++ {
				w, a, faulty := claimedWorld(t)
				faulty.Inject(vfs.Fault{Ops: changing, Nth: k, Mode: mode, Err: syscall.EIO})
				faulty.Inject(vfs.Fault{Ops: changing, Nth: k + 1, Sticky: true, Err: syscall.EIO})
				var told *Committed
				if got, err := a.project(1, `{}`, candidate(imageCandidate(shownImages...))); err == nil {
					told = &got
				}
				fired := len(faulty.Fired())
				w.close()
				w.fs = vfs.OS
				w.mustOpen()
				checkCall(t, w, told)
				_, err := a.claim("c1", "shot", "mutating")
				if err == nil {
					t.Error("the call is claimed a second time")
				}
				w.close()
				os.RemoveAll(w.dir)
				if t.Failed() {
					t.Fatalf("at call %d", k)
				}
				if fired == 0 && told != nil {
					if k < 3 {
						t.Errorf("only %d calls were seen", k-1)
					}
					t.Logf("%d calls", k-1)
					return
				}
			}
		})
	}
}

// TestOneFailureInOutcome: where one call fails and the process lives on, the
// outcome is committed, with its projection or with the sentinel, unless the
// log itself has failed; and a repetition is answered with what stands.
func TestOneFailureInOutcome(t *testing.T) {
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		sentinels := 0
		for k := 1; ; k++ {
			w, a, faulty := claimedWorld(t)
			faulty.Inject(vfs.Fault{Ops: changing, Nth: k, Mode: vfs.Half, Err: cause})
			var told *Committed
			got, err := a.project(1, `{}`, candidate(imageCandidate(shownImages...)))
			if err == nil {
				told = &got
				checkCall(t, w, told)
				if string(got.Projection) == projection.Sentinel {
					sentinels++
				}
				again, err := a.project(1, `{}`, candidate(imageCandidate(shownImages...)))
				if err == nil && (!again.Replayed || !bytes.Equal(again.Projection, got.Projection)) {
					t.Errorf("again it is %s", mustJSON(again))
				}
			}
			fired := faulty.Fired()
			w.close()
			w.fs = vfs.OS
			w.mustOpen()
			checkCall(t, w, told)
			w.close()
			os.RemoveAll(w.dir)
			if t.Failed() {
				t.Fatalf("%v at call %d: %v", cause, k, fired)
			}
			if len(fired) == 0 {
				break
			}
		}
		if sentinels == 0 {
			t.Errorf("%v: no failure was answered with the sentinel", cause)
		}
	}
}
