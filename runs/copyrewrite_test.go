package runs

import (
	"strings"
	"testing"

	"durafs/cas"
	"durafs/projection"
	"durafs/wal"
)

// TestRewriteKnowsEveryKind: of each kind of entry it is said what a copy has of
// it; what is new has to be said too.
func TestRewriteKnowsEveryKind(t *testing.T) {
	for k := kind(1); k < kindCount; k++ {
		w := rewriter{from: "exec_a", to: "exec_b", num: 2}
		if _, _, err := w.entry(entry{kind: k, run: 1}); k.known() && CodeOf(err) == CopyRefused {
			t.Errorf("kind %d: %v", k, err)
		}
	}
	w := rewriter{from: "exec_a", to: "exec_b", num: 2}
	_, _, err := w.entry(entry{kind: 200, run: 1})
	wantCode(t, err, CopyRefused)
}

// TestRewriteFails: a reference that cannot be rewritten, or to what a copy has
// not, is an error.
func TestRewriteFails(t *testing.T) {
	image := jpeg(900, 1)
	shows := func(run string, name string, of []byte) entry {
		p := projection.Projection{Status: projection.OK, Parts: []projection.Part{projection.Image{
			MediaType: "image/jpeg", Ref: projection.Ref{Run: run, Name: name, B3: projection.Digest(cas.Sum(of)), Bytes: int64(len(of))},
		}}}
		b, err := projection.Encode(p, run)
		if err != nil {
			t.Fatal(err)
		}
		return (&outcome{Call: 1, Same: "x", text: []byte(`{}`), projection: b}).entry(1)
	}
	put := func(source sourceNumber, name string, b []byte) entry {
		return (&payload{name: name, source: source, ref: cas.Ref{ID: cas.Sum(b), Bytes: int64(len(b)), Inline: b}}).entry(1)
	}
	claims := func(b3 string) entry {
		return (&claim{Call: 1, CallID: "c", Name: "t", Safety: ReadOnly, Attempt: 1, ArgsPayload: "p", ArgsB3: b3}).entry(1)
	}
	row := func(flags uint8, text string) entry { return (&row{flags: flags, text: []byte(text)}).entry(1) }
	b3 := cas.Sum(image).String()
	gone := func(string) (bool, error) { return true, nil }
	for name, c := range map[string]struct {
		entries []entry
		deleted func(string) (bool, error)
		fails   bool
	}{
		"an image that is there":            {[]entry{put(numProjection, "p", image), shows("exec_a", "p", image)}, nil, false},
		"an image that is not there":        {[]entry{shows("exec_a", "p", image)}, nil, true},
		"an image that comes later":         {[]entry{shows("exec_a", "p", image), put(numProjection, "p", image)}, nil, true},
		"an image with other bytes":         {[]entry{put(numProjection, "p", jpeg(900, 2)), shows("exec_a", "p", image)}, nil, true},
		"an image of another run":           {[]entry{put(numProjection, "p", image), shows("exec_x", "p", image)}, nil, true},
		"arguments that are there":          {[]entry{put(numNamed, "p", image), claims(b3)}, nil, false},
		"arguments without a digest":        {[]entry{put(numNamed, "p", image), claims("")}, nil, false},
		"arguments with another digest":     {[]entry{put(numNamed, "p", image), claims(hexB3(nil))}, nil, true},
		"arguments that are not there":      {[]entry{claims(b3)}, nil, true},
		"arguments that were deleted":       {[]entry{claims(b3)}, gone, false},
		"arguments in the resume request":   {[]entry{put(numResumeRequest, "p", image), claims(b3)}, nil, true},
		"arguments in an answer":            {[]entry{put(numTerminal, "p", image), claims(b3)}, nil, true},
		"a row of such arguments":           {[]entry{row(rowByStore, `{"type":"tool-call","args_b3":"`+b3+`","args_payload":"p"}`)}, nil, true},
		"a row of a projection elsewhere":   {[]entry{row(rowByStore, `{"type":"tool-result","projection_b3":"`+b3+`"}`)}, nil, true},
		"an agent's row that says the same": {[]entry{row(0, `{"type":"tool-result","projection_b3":"`+b3+`","args_payload":"p","oversized":{}}`)}, nil, false},
		"a large row without its body":      {[]entry{row(rowPreview, `{"oversized":{"bytes":900,"b3":"`+b3+`","payload":"p"}}`)}, nil, true},
		"a large row with its body":         {[]entry{put(numLogBody, "p", image), row(rowPreview, `{"oversized":{"bytes":900,"b3":"`+b3+`","payload":"p"}}`)}, nil, false},
		"a large row that names none":       {[]entry{row(rowPreview, `{"oversized":{}}`)}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := rewriter{from: "exec_a", to: "exec_b", num: 2, deleted: c.deleted}
			var err error
			for _, e := range c.entries {
				if _, _, err = w.entry(e); err != nil {
					break
				}
			}
			if c.fails {
				wantCode(t, err, CopyRefused)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCopyOfDangling: where a log refers to what the run has not, nothing of a
// copy is seen, and a copy up to before that succeeds.
func TestCopyOfDangling(t *testing.T) {
	w := newWorld(t)
	a := w.copySource("exec_source")
	num := uint32(w.ref(a.id))
	rec, err := w.s.current(num)
	if err != nil {
		t.Fatal(err)
	}
	cl := &claim{Call: 6, CallID: "c6", Name: "t", Safety: ReadOnly, Attempt: 1, ArgsPayload: "nobody put it", ArgsB3: hexB3(nil)}
	rec, _ = rec.withClaim(cl, 1, "")
	b := newBatch(num, rec.entry(num), cl.entry(num), callRow(num, cl, nil))
	if err := w.s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision { return w.s.accept(w.s.view(num), lsn, b) }); err != nil {
		t.Fatal(err)
	}
	a.mustOutcome(6, `{}`)
	was := w.picture()
	_, _, err = w.copy(a.id, projection.CopyBranch, 6, StartRequest{ID: "exec_c"})
	if r := wantCode(t, err, CopyRefused); r.Field != "nobody put it" || !strings.Contains(r.Error(), "earlier call") {
		t.Error(r)
	}
	if w.picture() != was || len(w.s.index.staged) > 0 {
		t.Error("something of the copy is left")
	}
	w.checkCopy(a, w.mustCopy(a.id, projection.CopyBranch, 5, StartRequest{ID: "exec_c"}))
}

// TestCopyOfCompacted: of a log that has given way there is nothing to copy.
func TestCopyOfCompacted(t *testing.T) {
	w := newWorld(t)
	a := w.copySource("exec_source")
	a.mustSettle("done")
	num := uint32(w.ref(a.id))
	rec, err := w.s.current(num)
	if err != nil {
		t.Fatal(err)
	}
	rec = rec.next()
	rec.Compacted = true
	b := newBatch(num, rec.entry(num))
	if err := w.s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision { return w.s.accept(w.s.view(num), lsn, b) }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _, err = w.copy(a.id, projection.CopyBranch, 1, StartRequest{})
		wantCode(t, err, LogCompacted)
		w.reopen()
	}
}
