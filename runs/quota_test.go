package runs

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"durafs/internal/vfs"
	"durafs/projection"
)

// newBounded is a store with bounds.
func newBounded(t testing.TB, runBytesMax, storeBytesMax int64) *world {
	w := &world{t: t, fs: vfs.OS, dir: fastDir(t), ledger: new(memLedger), quota: quota{runBytesMax, storeBytesMax}}
	w.mustOpen()
	t.Cleanup(w.close)
	return w
}

// used is what the runs count for by what can be read of them: their logs,
// their payloads, and the claims and outcomes of their calls. It must be what
// the index says, and what accept steps rest on.
func (w *world) used() (all int64) {
	w.t.Helper()
	for ref := Ref(1); ref <= w.s.Newest(); ref++ {
		run, ok := w.s.Info(ref)
		if !ok {
			continue
		}
		n := int64(len(w.logText(run.ID)))
		err := w.s.walkEntries(uint32(ref), func(_ *batch, e entry) error {
			if e.kind != kindRow && e.kind != kindPayload {
				n += e.counts(0)
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
		places, _, _, _, err := w.s.payloadPlaces(uint32(ref))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, p := range places {
			if p == deletedPlace {
				continue
			}
			f, err := w.s.readPayload(p)
			if err != nil {
				w.t.Fatal(err)
			}
			n += f.ref.Bytes
		}
		if run.Bytes != n {
			w.t.Errorf("the run %s has %d bytes, and the index says %d", run.ID, n, run.Bytes)
		}
		all += n
	}
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	if w.s.index.bytes != all || w.s.acc.bytes != all {
		w.t.Errorf("the runs have %d bytes, the index says %d, accepted are %d", all, w.s.index.bytes, w.s.acc.bytes)
	}
	for num, l := range w.s.acc.runs {
		if c, i := w.s.index.at(num); l.bytes != c.bytes(i) {
			w.t.Errorf("the run %d has %d bytes accepted, and %d", num, l.bytes, c.bytes(i))
		}
	}
	return all
}

func wantFull(t *testing.T, err error, code Code, field string, limit int64) {
	t.Helper()
	r := wantCode(t, err, code)
	if r.Field != field || r.Limit != limit || r.Size <= limit && r.Size != limit {
		t.Errorf("refused with field %q, size %d, limit %d: %v", r.Field, r.Size, r.Limit, r)
	}
}

// TestRunBytes: a run at its bound takes nothing new, and can be brought to its
// end: with outcomes, whose images have to stay away, and its answer.
func TestRunBytes(t *testing.T) {
	const limit = 64 << 10
	w := newBounded(t, limit, 0)
	a, other := w.start(StartRequest{}), w.start(StartRequest{})
	a.mustClaim("c", "t", "mutating")
	a.mustPut("small", "x")
	_, _, err := a.put("large", strings.Repeat("x", limit))
	wantFull(t, err, RunBytes, "payload", limit)
	if n := w.cas.Stats().PackBytes; n > limit+4096 {
		t.Errorf("a payload that was refused is in the packs, which have %d bytes", n)
	}
	row := fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("y", 1000))
	for range limit / 1000 {
		if _, err = a.append(row); err != nil {
			break
		}
	}
	wantFull(t, err, RunBytes, "rows", limit)
	have := w.info(a.id).Bytes
	_, err = a.append(fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("y", 70<<10)))
	wantFull(t, err, RunBytes, "rows", limit)
	a.mustAppend(fmt.Sprintf(`{"%s":1}`, strings.Repeat("z", int(limit-have)-len(`{"seq":99,"":1}`+"\n")))) // to the last byte
	if n := w.info(a.id).Bytes; n != limit {
		t.Fatalf("it has %d bytes, not %d", n, limit)
	}
	for what, err := range map[string]error{
		"rows":    func() error { _, err := a.append(`{}`); return err }(),
		"call":    func() error { _, err := a.claim("d", "t", "read-only"); return err }(),
		"payload": func() error { _, _, err := a.put("empty", ""); return err }(),
	} {
		wantFull(t, err, RunBytes, what, limit)
	}
	if _, replayed, err := a.put("small", "x"); err != nil || !replayed {
		t.Errorf("a payload that is there: %v, %v", replayed, err)
	}
	if _, err := a.w.s.Beat(ctx, a.c, a.id, ""); err != nil {
		t.Error(err)
	}
	got, err := a.project(1, `{"status":"ok"}`, candidate(imageCandidate(jpeg(1000, 1))))
	if err != nil || string(got.Projection) != projection.Sentinel || !strings.Contains(got.Refused, "the limit is") {
		t.Errorf("an outcome with an image: %+v, %v", got, err)
	}
	a.mustSettle(strings.Repeat("answer", 1000))
	other.mustAppend(row)
	w.used()
	w.reopen()
	w.used()
}

// TestStoreBytes: a store at its bound takes no new starts, rows, claims or
// payloads of any run, ends what was begun, and goes on without a restart when
// an owner deletes something.
func TestStoreBytes(t *testing.T) {
	const limit = 100 << 10
	w := newBounded(t, 0, limit)
	a, b, c := w.start(StartRequest{}), w.start(StartRequest{}), w.start(StartRequest{})
	a.mustPut("large", strings.Repeat("x", 99<<10))
	b.mustClaim("c", "t", "mutating")
	var err error
	for range 100 {
		if _, err = a.append(`{"x":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}`); err != nil {
			break
		}
	}
	wantFull(t, err, StoreBytes, "rows", limit)
	keyed := StartRequest{ID: "exec_k", IdempotencyKey: "k", Lock: "L", Labels: Labels{"thread": "T"}, Message: []byte(`"m"`), ResumeRequest: []byte(strings.Repeat("r", 20<<10))}
	before := w.picture()
	for range 2 {
		_, err = w.s.Start(ctx, Caller{UID: 7}, keyed)
		wantFull(t, err, StoreBytes, "run", limit)
	}
	if w.picture() != before || w.s.numbers.Load() != 3 {
		t.Error("a start that was refused has left something")
	}
	_, err = c.claim("c", "t", "read-only")
	wantFull(t, err, StoreBytes, "call", limit)
	_, _, err = c.put("p", strings.Repeat("y", 2000))
	wantFull(t, err, StoreBytes, "payload", limit)
	b.mustOutcome(1, `{"status":"ok"}`)
	b.mustSettle("done")
	if err := w.cancel(c.id); err != nil {
		t.Error(err)
	}
	w.used()
	if _, err := w.s.DeletePayload(ctx, owner, a.id, "large"); err != nil {
		t.Fatal(err)
	}
	a.mustAppend(`{"x":1}`)
	if st, err := w.s.Start(ctx, Caller{UID: 7}, keyed); err != nil || st.Replayed {
		t.Errorf("a start with room again, with a key that was refused: %+v, %v", st, err)
	}
	w.used()
	w.reopen()
	if st, err := w.s.Start(ctx, Caller{UID: 7}, keyed); err != nil || !st.Replayed {
		t.Errorf("the same after a restart: %+v, %v", st, err)
	}
	w.used()
}

// TestStartOverQuota: a start for which there is no room leaves nothing, also
// after a restart, and its key, id and lock are free.
func TestStartOverQuota(t *testing.T) {
	w := newBounded(t, 1000, 0)
	r := StartRequest{ID: "exec_a", IdempotencyKey: "k", Lock: "L", ResumeRequest: []byte(strings.Repeat("r", 950))}
	for range 2 {
		_, err := w.s.Start(ctx, Caller{UID: 7}, r)
		wantFull(t, err, RunBytes, "run", 1000)
		w.reopen()
		if len(w.frames) > 0 {
			t.Fatalf("it has left %d batches", len(w.frames))
		}
	}
	r.ResumeRequest = r.ResumeRequest[:100]
	if a := w.start(r); w.ref(a.id) != 1 {
		t.Error("its number was given")
	}
	w.used()
}

// TestQuotaExact: many agents at once, and their store passes its bound by
// nothing; what was refused counts for nothing.
func TestQuotaExact(t *testing.T) {
	const limit = 40 << 10
	w := newBounded(t, 16<<10, limit)
	var all []*agent
	for range 4 {
		all = append(all, w.start(StartRequest{}))
	}
	var work sync.WaitGroup
	for i, a := range all {
		work.Go(func() {
			for n := range 200 {
				var err error
				switch n % 4 {
				case 0:
					_, err = a.append(fmt.Sprintf(`{"n":%d}`, n), fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", n)))
				case 1:
					_, _, err = a.put(fmt.Sprint("p", n), strings.Repeat("p", n*i))
				case 2:
					_, err = a.claim(fmt.Sprint("c", n), "t", "idempotent")
				case 3:
					_, err = w.s.DeletePayload(ctx, owner, a.id, fmt.Sprint("p", max(n-14, 1)))
				}
				if err != nil && !overQuota(err) && CodeOf(err) != UnknownPayload && CodeOf(err) != TooManyCalls {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	// The store's own rows, of deletions here, are taken beyond the bound.
	if n := w.used(); n > limit+200*200 {
		t.Errorf("the runs have %d bytes, and the limit is %d", n, limit)
	}
	w.reopen()
	w.used()
}

// TestQuotaOfRefused: what the log refuses counts for nothing.
func TestQuotaOfRefused(t *testing.T) {
	w, full := newFull(t)
	a := w.start(StartRequest{})
	a.deny(full)
	w.used()
	a.mustAppend(`{"x":2}`)
	w.used()
}

// TestBoundedReader: a stream for which there is no room is not read to its end.
func TestBoundedReader(t *testing.T) {
	w := newBounded(t, 1<<20, 0)
	a := w.start(StartRequest{})
	read := new(endless)
	_, _, err := w.s.Put(ctx, a.c, a.id, "p", SourceNamed, "", read)
	wantFull(t, err, RunBytes, "payload", 1<<20)
	if read.n > 2<<20 {
		t.Errorf("%d bytes were read", read.n)
	}
}

type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.n += int64(len(p)); e.n > 1<<30 {
		return 0, io.ErrUnexpectedEOF
	}
	return len(p), nil
}
