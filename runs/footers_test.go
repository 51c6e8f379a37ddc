package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"durafs/internal/vfs"
	"durafs/projection"
	"durafs/segment"
	"durafs/wal"
)

// fill lives a little in a store of small segments: runs of many kinds, with
// rows of their own and with keys, payloads, late writes, settings, restarts.
func (w *world) fill(rt *rapid.T) []*agent {
	var agents []*agent
	n := 0
	pick := func(rt *rapid.T) *agent {
		if len(agents) == 0 {
			rt.Skip("no run yet")
		}
		return agents[rapid.IntRange(max(0, len(agents)-4), len(agents)-1).Draw(rt, "run")]
	}
	rt.Repeat(map[string]func(*rapid.T){
		"start": func(rt *rapid.T) {
			n++
			r := StartRequest{ID: fmt.Sprintf("exec_%d", n), Labels: Labels{"thread": fmt.Sprint("T", n%3), "a": strings.Repeat("x", n%5)}}
			if n%2 == 0 {
				r.ID, r.IdempotencyKey, r.ResumeRequest = "", fmt.Sprint("key", n), []byte("resume")
			}
			if n%3 == 0 && len(agents) > 0 {
				r.Parent = agents[0].id
			}
			if n%5 == 0 {
				r.Target = "agent:a"
			}
			if n%4 != 0 {
				r.Message = []byte(`"a turn"`)
			}
			st, err := w.s.Start(ctx, Caller{UID: 7}, r)
			if CodeOf(err) == TargetNotEnrolled {
				rt.Skip("its target is not enrolled")
			}
			if err != nil {
				rt.Fatal(err)
			}
			agents = append(agents, &agent{w, st.Record.ID, Caller{UID: 7, Writer: st.Writer}})
		},
		"append": func(rt *rapid.T) {
			size := rapid.SampledFrom([]int{1, 100, 900, 70 << 10}).Draw(rt, "size")
			pick(rt).append(fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("t", size)), `{}`)
		},
		"keys": func(rt *rapid.T) {
			k := rapid.IntRange(0, 30).Draw(rt, "key")
			a := pick(rt)
			w.s.Append(ctx, a.c, a.id, rowsOf(fmt.Sprintf(`{"k":%d,"v":1}`, k), fmt.Sprintf(`{"k":%d}`, k+100)), "k")
		},
		"put": func(rt *rapid.T) {
			pick(rt).put(fmt.Sprint("p", rapid.IntRange(0, 9).Draw(rt, "name")), strings.Repeat("p", rapid.SampledFrom([]int{1, 20 << 10}).Draw(rt, "size")))
		},
		"delete": func(rt *rapid.T) {
			a, name := pick(rt), fmt.Sprint("p", rapid.IntRange(0, 9).Draw(rt, "name"))
			if _, err := w.s.DeletePayload(ctx, owner, a.id, name); err != nil && CodeOf(err) != UnknownPayload {
				rt.Fatal(err)
			}
		},
		"copy": func(rt *rapid.T) {
			a := pick(rt)
			n++
			b, _, err := w.copy(a.id, rapid.SampledFrom([]projection.CopyKind{"branch", "before", "revise"}).Draw(rt, "kind"), 1, StartRequest{ID: fmt.Sprintf("exec_%d", n)})
			if code := CodeOf(err); err != nil && code != UnknownCall && code != CallOpen && code != TargetNotEnrolled {
				rt.Fatal(err)
			}
			if err == nil {
				agents = append(agents, b)
			}
		},
		"copy in part": func(rt *rapid.T) {
			src := uint32(w.ref(pick(rt).id))
			source, err := w.s.copied(src)
			if err != nil {
				rt.Fatal(err)
			}
			c := &copying{s: w.s, src: src, source: source, kind: "branch", call: 1}
			err = c.stage(ctx, &starting{caller: owner, req: StartRequest{ID: "exec_never"}})
			if err == nil && rapid.Bool().Draw(rt, "given up") {
				c.end()
			}
		},
		"enrol": func(rt *rapid.T) {
			w.s.Enrol(ctx, owner, rapid.SampledFrom([]string{"agent:a", "agent:b"}).Draw(rt, "target"), rapid.Bool().Draw(rt, "enrolled"))
		},
		"beat": func(rt *rapid.T) { a := pick(rt); w.s.Beat(ctx, a.c, a.id, "") },
		"tell": func(rt *rapid.T) {
			w.tell("", rapid.SampledFrom([]string{"", "it is full"}).Draw(rt, "failure"))
		},
		"drop": func(rt *rapid.T) {
			if all := w.outbox(); len(all) > 0 {
				at := all[rapid.IntRange(0, len(all)-1).Draw(rt, "delivery")]
				if _, err := w.s.DropDelivery(ctx, owner, at.ID); err != nil {
					rt.Fatal(err)
				}
			}
		},
		"retry": func(rt *rapid.T) {
			if all := w.outbox(); len(all) > 0 {
				at := all[rapid.IntRange(0, len(all)-1).Draw(rt, "delivery")]
				if _, err := w.s.RetryDelivery(ctx, owner, at.ID); err != nil {
					rt.Fatal(err)
				}
			}
		},
		"settle":  func(rt *rapid.T) { pick(rt).settle(Success, "answer") },
		"attach":  func(rt *rapid.T) { a := pick(rt); w.s.Attach(ctx, a.c, a.id, AttachRequest{}) },
		"restart": func(rt *rapid.T) { w.reopen() },
	})
	return agents
}

// whole is what the store shows of itself.
func (w *world) whole() string {
	var b strings.Builder
	for _, target := range []string{targetMaster, "agent:a", "agent:b"} {
		rows, err := w.s.Journal(owner, target, 0)
		if err != nil && CodeOf(err) == "" {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s: %s\n", target, mustJSON(rows))
	}
	for n := range 3 {
		page, err := w.s.Thread(owner, fmt.Sprint("T", n), 0, 0)
		if err != nil && CodeOf(err) == "" {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", mustJSON(page))
	}
	threads, _, _ := w.s.Threads(owner, "", 0)
	fmt.Fprintf(&b, "%s\n", mustJSON(threads))
	fmt.Fprintf(&b, "%s\n", mustJSON(w.outbox()))
	classes, _ := w.s.ToolClasses(owner)
	fmt.Fprintf(&b, "%s\n", mustJSON(classes))
	return b.String()
}

// ask is what the store answers to those who repeat themselves: whether it
// knows keys and names that lie in sealed segments.
func (w *world) ask(agents []*agent) string {
	var b strings.Builder
	for i, a := range agents {
		if _, err := w.s.Attach(ctx, a.c, a.id, AttachRequest{}); err != nil {
			continue
		}
		for k := range 31 {
			got, err := w.s.Append(ctx, a.c, a.id, rowsOf(fmt.Sprintf(`{"k":%d,"v":2}`, k)), "k")
			fmt.Fprintln(&b, i, k, got.FirstSeq, got.Replayed, err)
		}
		for p := range 10 {
			_, replayed, err := a.put(fmt.Sprint("p", p), "p")
			fmt.Fprintln(&b, i, p, replayed, err)
			gone, err := w.s.DeletePayload(ctx, owner, a.id, fmt.Sprint("p", p))
			gone.At = time.Time{}
			fmt.Fprintln(&b, i, p, gone, err)
		}
	}
	for k := range 6 {
		got, err := w.s.Post(ctx, owner, fmt.Sprint("T", k%3), PostRequest{Message: []byte(`"post"`), IdempotencyKey: fmt.Sprint("post", k)})
		fmt.Fprintln(&b, k, got.Replayed, err)
	}
	for k := range 40 {
		st, err := w.s.Start(ctx, Caller{UID: 8}, StartRequest{ID: fmt.Sprintf("exec_again%d", k), IdempotencyKey: fmt.Sprint("key", k)})
		if err == nil {
			fmt.Fprintln(&b, k, st.Replayed, st.Record.ID, st.Epoch)
		} else {
			fmt.Fprintln(&b, k, err)
		}
	}
	return b.String()
}

// copied is a world with the same files, not yet opened.
func (w *world) copied(base string) *world {
	dir, err := os.MkdirTemp(base, "copy")
	if err != nil {
		w.t.Fatal(err)
	}
	c := &world{t: w.t, fs: w.fs, dir: dir, ledger: new(memLedger), segmentBytes: w.segmentBytes, sinks: w.sinks}
	if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
		w.t.Fatal(err)
	}
	for _, p := range w.ledger.Packs() {
		c.ledger.AddPack(p)
	}
	return c
}

// breakFooters damages the footers of some segments: all (every is 1), or each
// of so many.
func (w *world) breakFooters(every, at int) {
	names, err := filepath.Glob(filepath.Join(w.dir, "wal", "0*.seg"))
	if err != nil {
		w.t.Fatal(err)
	}
	for i, name := range names {
		if i%every != 0 {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		b[len(b)-at] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestFootersSayTheSame: a store that is opened by its footers, by some of
// them, by walking its segments or by replaying every batch shows the same, and
// answers the same.
func TestFootersSayTheSame(t *testing.T) {
	base := fastDir(t)
	checks(t, 15)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "footers")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &world{t: t, fs: vfs.OS, dir: dir, ledger: new(memLedger), segmentBytes: 256 << 10, sinks: []string{"mail", "page"}}
		w.mustOpen()
		defer w.close()
		agents := w.fill(rt)
		w.reopen() // which interrupts what is running, at one time for all
		w.used()
		w.close()
		if wrong := w.checkFooters(); len(wrong) > 0 {
			rt.Fatalf("footers that nobody touched: %v", wrong)
		}
		var first, firstAsked string
		for i, change := range []func(c *world){
			func(c *world) { c.replays = true },
			func(c *world) {},
			func(c *world) { c.breakFooters(1, 1) },
			func(c *world) { c.breakFooters(3, 1) },
			func(c *world) { c.breakFooters(2, 4097+100) }, // a page of its last section
		} {
			c := w.copied(base)
			defer os.RemoveAll(c.dir)
			change(c)
			c.mustOpen()
			picture := c.picture() + c.whole()
			c.used()
			for _, a := range agents {
				a.w = c
			}
			asked := c.ask(agents)
			c.close()
			if i == 0 {
				first, firstAsked = picture, asked
				continue
			}
			if d := cmp.Diff(first, picture); d != "" {
				rt.Fatalf("way %d shows something else: %s", i, d)
			}
			if d := cmp.Diff(firstAsked, asked); d != "" {
				rt.Fatalf("way %d answers something else: %s", i, d)
			}
		}
	})
}

// checkFooters is what is wrong with the footers of a log that is closed.
func (w *world) checkFooters() (wrong []wal.Finding) {
	w.t.Helper()
	var c FooterCheck
	err := wal.VerifyFooters(ctx, w.fs, filepath.Join(w.dir, "wal"), 0, c.Segment, func(f wal.Finding) { wrong = append(wrong, f) })
	if err != nil {
		w.t.Fatal(err)
	}
	return wrong
}

// rotFrame flips a bit of a batch's payload.
func (w *world) rotFrame(at wal.Position) {
	name := filepath.Join(w.dir, "wal", fmt.Sprintf("%010d.seg", at.Segment))
	b, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	b[at.Offset+segment.FrameHeaderBytes+8] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// shown is picture and whole of a store in which something cannot be read.
func (w *world) shown() string {
	var b strings.Builder
	for ref := Ref(1); ref <= w.s.Newest(); ref++ {
		run, ok := w.s.Info(ref)
		if !ok {
			continue
		}
		rec, err := w.s.Record(ref)
		fmt.Fprintf(&b, "%s %v\n", mustJSON(rec), err)
		list, err := w.s.PayloadList(ref)
		fmt.Fprintf(&b, "%s %v\n", mustJSON(list), err)
		text := make([]byte, run.LogBytes)
		n, err := w.s.ReadLogAt(ref, text, 0)
		fmt.Fprintf(&b, "%s %v\n", text[:n], err)
		run.Generation = 0 // of what this process has shown
		fmt.Fprintf(&b, "%+v\n", run)
	}
	fmt.Fprintf(&b, "%v %+v\n", w.s.Counts(), w.s.Damage())
	for _, target := range []string{targetMaster, "agent:a", "agent:b"} {
		rows, err := w.s.Journal(owner, target, 0)
		fmt.Fprintf(&b, "%s: %s %v\n", target, mustJSON(rows), err)
	}
	for n := range 3 {
		page, err := w.s.Thread(owner, fmt.Sprint("T", n), 0, 0)
		fmt.Fprintf(&b, "%s %v\n", mustJSON(page), err)
	}
	fmt.Fprintf(&b, "%s\n", mustJSON(w.outbox()))
	uid := uint32(7)
	for _, q := range []ListQuery{{}, {UID: &uid}, {Thread: "T0"}, {Thread: "T1"}, {Labels: Labels{"a": "x"}}, {Parent: "exec_1"}} {
		page, err := w.s.List(owner, q)
		fmt.Fprintf(&b, "listed:")
		for _, rec := range page.Runs {
			fmt.Fprintf(&b, " %s", rec.ID)
		}
		fmt.Fprintf(&b, " %v\n", err)
	}
	fmt.Fprintf(&b, "%+v, accepted %d\n", w.s.Usage(), w.s.acc.bytes)
	return b.String()
}

// TestLeftOutSayTheSame: one batch of a run has rotted, and the footers are
// gone. A store that replays every batch and one that walks its segments, and
// replays of them only what was left out, show the same, at every open.
func TestLeftOutSayTheSame(t *testing.T) {
	base := fastDir(t)
	checks(t, 10)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "leftout")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &world{t: t, fs: vfs.OS, dir: dir, ledger: new(memLedger), segmentBytes: 256 << 10, sinks: []string{"mail", "page"}}
		w.mustOpen()
		defer w.close()
		w.fill(rt)
		w.reopen()
		frames := slices.DeleteFunc(slices.Clone(w.frames), func(f wal.Frame) bool { return f.Run == 0 })
		w.close()
		if len(frames) == 0 {
			rt.Skip("there is no run")
		}
		w.rotFrame(frames[rapid.IntRange(0, len(frames)-1).Draw(rt, "rotten")].Pos)
		w.breakFooters(1, 1)
		pictureOf := func(c *world) string {
			c.mustOpen()
			defer c.close()
			return c.shown()
		}
		replayed := w.copied(base)
		defer os.RemoveAll(replayed.dir)
		replayed.replays = true
		first := pictureOf(replayed)
		for round := range 3 {
			if d := cmp.Diff(first, pictureOf(w)); d != "" {
				rt.Fatalf("open %d shows something else: %s", round, d)
			}
			if wrong := w.checkFooters(); len(wrong) > 0 {
				rt.Fatalf("footers: %v", wrong)
			}
		}
	})
}

// liar is a Store that leaves a row out of a footer.
type liar struct {
	*Store
	lied bool
}

func (l *liar) Derive(seg uint32, batches wal.Batches, w *wal.FooterWriter) error {
	return l.Store.Derive(seg, func(each func(wal.Frame) error, lost func(*wal.DamageError) error) error {
		rows := 0
		return batches(func(f wal.Frame) error {
			if rows++; rows == 5 {
				l.lied = true
				return nil
			}
			return each(f)
		}, lost)
	}, w)
}

// A footer that is as it was written, but was written wrongly, is found.
func TestFooterCheckFindsALie(t *testing.T) {
	dir := filepath.Join(fastDir(t), "wal")
	s := New(Options{StoreKey: []byte("the store's key")})
	l := &liar{Store: s}
	log, err := openLog(vfs.OS, dir, wal.Options{SegmentBytesMax: 256 << 10, Derived: l}, s.Replay)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Boot(ctx, log, nil); err != nil {
		t.Fatal(err)
	}
	st, err := s.Start(ctx, owner, StartRequest{ID: "exec_1"})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := s.Append(ctx, Caller{UID: owner.UID, Writer: st.Writer}, "exec_1", rowsOf(`{"a":1}`), ""); err != nil {
			t.Fatal(err)
		}
	}
	log.Close(ctx)
	w := &world{t: t, fs: vfs.OS, dir: filepath.Dir(dir)}
	if wrong := w.checkFooters(); !l.lied || len(wrong) != 1 || wrong[0].File != "0000000001.seg" {
		t.Errorf("found: %+v", wrong)
	}
}
