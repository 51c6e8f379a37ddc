package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"durafs/runs"
	"durafs/view"
	"durafs/view/viewtest"
)

var start = time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)

// sample is a store with a bit of everything.
func sample() (*viewtest.Store, *view.View) {
	s := viewtest.New(start)
	for i := range 5 {
		ref := s.Start(viewtest.ID(i))
		for row := range i * 3 {
			s.Append(ref, fmt.Sprintf(`{"seq":%d,"type":"note"}`, row+1))
		}
		if i == 2 {
			s.Put(ref, "report.txt", runs.SourceNamed, []byte("all is well\n"))
			s.Put(ref, "secret", runs.SourceResumeRequest, []byte("private"))
			s.Put(ref, "100 %", runs.SourceNamed, nil)
			s.Put(ref, ".row-7", runs.SourceLogBody, bytes.Repeat([]byte("x"), 70000))
			s.Put(ref, "sharp\u202etxt.exe", runs.SourceNamed, []byte("turned"))
			s.Put(ref, strings.Repeat("%", 200), runs.SourceNamed, []byte("long"))
			s.Late(ref, `{"late":1}`)
			s.Settle(ref, []byte("the answer"))
		}
		s.SetTime(start.AddDate(0, 0, i/2))
	}
	more(s)
	return s, view.New(s, func() []byte { return []byte("serving\n") })
}

// oddThread is a label that no path could hold as it is, and longThread one whose
// escaped form is too long for a name.
const oddThread = "50 % off\u202e"

var longThread = strings.Repeat("%", 100)

// more gives the sample calls, threads and journals.
func more(s *viewtest.Store) {
	ref := s.StartIn(viewtest.ID(5), oddThread)
	s.Call(ref, "bash", `{"command":"ls"}`, []byte(`{"v":1,"status":"ok","parts":[{"kind":"text","text":"a <b>"}]}`))
	s.Call(ref, "bash", `{}`, nil)
	s.StartIn(viewtest.ID(6), longThread)
	s.Move(s.StartIn(viewtest.ID(7), oddThread), runs.PausedInterruption)
	s.Post(oddThread, "good <morning>\nto all")
	s.Post(longThread, "hello")
	s.Post(oddThread, "and evening")
	s.Enrol("master")
	s.Enrol("site:https://example.org")
	s.Note("master", `{"type":"start"}`)
	s.Note("master", `{"type":"end"}`)
}

func TestFSPassesTheStandardTest(t *testing.T) {
	_, v := sample()
	run := "runs/" + viewtest.ID(2)
	err := fstest.TestFS(v.FS(), "status",
		run+"/record", run+"/log", run+"/payload", run+"/late",
		run+"/payloads/report.txt", run+"/payloads/100 %25", run+"/payloads/.row-7",
		run+"/payloads/sharp%E2%80%AEtxt.exe", run+"/payloads/%payload-5",
		"by-day/2026-03-01/"+viewtest.ID(0),
		run+"/history", "runs/"+viewtest.ID(5)+"/tools/1", "runs/"+viewtest.ID(5)+"/tools/2",
		"by-thread/50 %25 off%E2%80%AE/"+viewtest.ID(7), "by-thread/%thread-7/"+viewtest.ID(6),
		"by-phase/paused-interruption/"+viewtest.ID(7), "by-phase/terminal/"+viewtest.ID(2),
		"threads/50 %25 off%E2%80%AE/text", "threads/%thread-2/json",
		"journal/master", "journal/site:https:%2F%2Fexample.org")
	if err != nil {
		t.Fatal(err)
	}
}

func TestContents(t *testing.T) {
	s, v := sample()
	run := "runs/" + viewtest.ID(2)
	want := map[string]string{
		"status":                     "serving\n",
		run + "/log":                 string(s.Log(3)),
		run + "/record":              string(s.RecordText(3)),
		run + "/late":                `{"late":1}` + "\n",
		run + "/payload":             "the answer",
		run + "/payloads/report.txt": "all is well\n",
		run + "/payloads/100 %25":    "",
		run + "/payloads/%payload-5": "long",
		"by-day/2026-03-02/" + viewtest.ID(3) + "/log": string(s.Log(4)),

		run + "/history": "",
		"by-thread/50 %25 off%E2%80%AE/" + viewtest.ID(5) + "/history": "" +
			`{"call":1,"call_id":"c0","name":"bash","index":0,"safety":"read-only","attempt":1,"args":{"command":"ls"},"result":{"call":1,"outcome":null,"projection":{"v":1,"status":"ok","parts":[{"kind":"text","text":"a \u003cb\u003e"}]}}}` + "\n" +
			`{"call":2,"call_id":"c1","name":"bash","index":0,"safety":"read-only","attempt":1,"args":{}}` + "\n",
		"runs/" + viewtest.ID(5) + "/tools/2": `{
  "call": 2,
  "call_id": "c1",
  "name": "bash",
  "index": 0,
  "safety": "read-only",
  "attempt": 1,
  "args": {}
}
`,
		"by-phase/paused-interruption/" + viewtest.ID(7) + "/record": string(s.RecordText(8)),

		"threads/50 %25 off%E2%80%AE/text": "2026-03-03 23:59:59.006Z  user: good <morning>\n    to all\n" +
			"2026-03-03 23:59:59.006Z  user: and evening\n",
		"threads/50 %25 off%E2%80%AE/json": `{"thread":"50 % off` + "\u202e" + `","messages":[{"lsn":1,"at":"2026-03-03T23:59:59.006Z","role":"user","message":"good \u003cmorning\u003e\nto all"},` +
			`{"lsn":3,"at":"2026-03-03T23:59:59.006Z","role":"user","message":"and evening"}]}` + "\n",
		"journal/master":                       `{"lsn":4,"type":"start"}` + "\n" + `{"lsn":5,"type":"end"}` + "\n",
		"journal/site:https:%2F%2Fexample.org": "",
	}
	for name, text := range want {
		got, err := fs.ReadFile(v.FS(), name)
		if err != nil || string(got) != text {
			t.Errorf("%s: %q, %v; want %q", name, got, err, text)
		}
		info, err := fs.Stat(v.FS(), name)
		if err != nil || info.Size() != int64(len(text)) {
			t.Errorf("%s: stat says %v, %v; want %d bytes", name, info, err, len(text))
		}
	}
	record := s.RecordText(3)
	if !json.Valid(record) || record[len(record)-1] != '\n' || !bytes.Contains(record, []byte("\n  \"id\"")) {
		t.Errorf("the record is not indented JSON with a newline: %q", record)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	_, v := sample()
	run := "runs/" + viewtest.ID(2)
	for _, name := range []string{
		"nothing", "runs/nothing", "runs/" + viewtest.ID(99), run + "/nothing",
		"runs/" + viewtest.ID(0) + "/payload", "runs/" + viewtest.ID(0) + "/late",
		run + "/payloads/secret", run + "/payloads/.terminal", run + "/payloads/100 %",
		run + "/payloads/report%2Etxt", run + "/payloads/%payload-0", run + "/payloads/%payload-05",
		run + "/payloads/" + strings.Repeat("x", 256), run + "/log/x",
		"by-day/2026-03-09", "by-day/2026-3-1", "by-day/today",
		"by-day/2026-03-02/" + viewtest.ID(0),
		"runs/" + viewtest.ID(5) + "/tools/0", "runs/" + viewtest.ID(5) + "/tools/3", "runs/" + viewtest.ID(5) + "/tools/01",
		"by-thread/50 % off\u202e", "by-thread/nobody", "by-thread/%thread-8", "by-thread/%thread-6",
		"by-thread/%thread-7/" + viewtest.ID(5), "by-phase/idle", "by-phase/running/" + viewtest.ID(7),
		"threads/%thread-3", "threads/%thread-1", "threads/nobody", "threads/%thread-2/html",
		"journal/agent:nobody", "journal/%target-1", "journal/master/x",
	} {
		if _, err := fs.Stat(v.FS(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%.60s: %v, want no such name", name, err)
		}
	}
}

func TestPrivatePayloadHasNoNode(t *testing.T) {
	_, v := sample()
	if _, err := v.Attr(view.PayloadFile(3, 1)); err != view.ErrNotExist {
		t.Errorf("attr of a private payload: %v", err)
	}
	if _, err := v.Open(view.PayloadFile(3, 1)); err != view.ErrNotExist {
		t.Errorf("open of a private payload: %v", err)
	}
}

func TestEveryNodeIsTheOneItsNameLeadsTo(t *testing.T) {
	_, v := sample()
	seen := map[view.Node]string{}
	var walk func(dir view.Node, at string)
	walk = func(dir view.Node, at string) {
		err := v.ReadDir(dir, 0, true, func(e view.Entry) bool {
			name := at + "/" + e.Name
			if other, ok := seen[e.Node]; ok {
				t.Errorf("%s and %s share the node %#x", name, other, e.Node)
			}
			seen[e.Node] = name
			a, err := v.Lookup(dir, e.Name)
			asked := e.Attr.Node == 0 // it was left to be asked for
			if err != nil || a != e.Attr && !asked || a.Node != e.Node {
				t.Errorf("%s: looked up %+v, %v; listed %+v", name, a, err, e)
			}
			if again, err := v.Attr(e.Node); err != nil || again != a {
				t.Errorf("%s: asked by node %+v, %v; by name %+v", name, again, err, a)
			}
			if e.Node.Type() != a.Type {
				t.Errorf("%s: type %v by its number, %v by its attributes", name, e.Node.Type(), a.Type)
			}
			if a.Type.IsDir() {
				if p := v.Parent(e.Node); p != dir {
					t.Errorf("%s: parent %#x, want %#x", name, p, dir)
				}
				walk(e.Node, name)
			}
			return true
		})
		if err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	walk(view.Root, "")
	if len(seen) < 30 {
		t.Errorf("only %d nodes were seen", len(seen))
	}
}

// Nodes are inode numbers that people may have noted down and that a kernel
// keeps over a restart of the daemon: these never change.
func TestNodesAreFixed(t *testing.T) {
	for n, want := range map[view.Node]uint64{
		view.Root: 1, view.RunsDir: 2, view.ByDayDir: 3, view.StatusFile: 4,
		view.RunDir(1):                    0x1000_0000_0010_0000,
		view.RecordFile(1):                0x1000_0000_0010_0001,
		view.PayloadsDir(1):               0x1000_0000_0010_0004,
		view.LateFile(1):                  0x1000_0000_0010_0005,
		view.LogFile(1<<32-1, 3):          0x200f_ffff_fff0_0003,
		view.PayloadFile(2, view.FileMax): 0x3000_0000_002f_ffff,

		view.ByThreadDir: 5, view.ByPhaseDir: 6, view.ThreadsDir: 7, view.JournalDir: 8,
		view.PhaseDir(runs.Running): 17, view.PhaseDir(runs.Terminal): 26,
		view.HistoryFile(1):  0x1000_0000_0010_0006,
		view.ToolsDir(1):     0x1000_0000_0010_0007,
		view.ToolFile(1, 9):  0x6000_0000_0010_0009,
		view.ThreadNode(258): 0x7000_0000_0000_1020,
	} {
		if uint64(n) != want {
			t.Errorf("node %#x, want %#x", uint64(n), want)
		}
	}
}

func TestForgedNodesAreRefused(t *testing.T) {
	_, v := sample()
	for _, n := range []view.Node{
		0, 9, 1 << 52, view.RunDir(3) | 1<<52, view.RunDir(3) | 9, view.RunDir(99),
		view.PayloadFile(3, 99), view.LogFile(3, 1), 6 << 60, 15 << 60, view.LateFile(1),
		16, 27, view.PhaseDir(runs.Running) | 1<<52, view.ToolFile(6, 3), view.ToolFile(6, 0), view.ToolFile(6, 1) | 1<<52,
		view.ThreadNode(3), view.ThreadNode(1) | 3, view.ThreadNode(1) | 1<<59, view.JournalDir | 3<<20, view.JournalDir | 1<<52,
		4<<60 | 7<<20 | 2, 4<<60 | 8<<20 | 1, 5<<60 | 6<<20 | 2, 5<<60 | 6<<20 | 26, 5<<60 | 1<<20 | 1,
	} {
		if a, err := v.Attr(n); err == nil {
			t.Errorf("node %#x has attributes: %+v", uint64(n), a)
		}
		if _, err := v.Open(n); err == nil {
			t.Errorf("node %#x can be opened", uint64(n))
		}
	}
}

func list(t *testing.T, v *view.View, dir view.Node, after view.Cookie, limit int) (names []string, last view.Cookie) {
	t.Helper()
	last = after
	err := v.ReadDir(dir, after, false, func(e view.Entry) bool {
		names, last = append(names, e.Name), e.Cookie
		return len(names) < limit
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, last
}

func TestListingGoesOnWhileRunsAppear(t *testing.T) {
	s := viewtest.New(start)
	v := view.New(s, nil)
	day := func() view.Node {
		a, err := v.Lookup(view.ByDayDir, "2026-03-01")
		if err != nil {
			t.Fatal(err)
		}
		return a.Node
	}
	made := 0
	admit := func(n int) {
		for range n {
			s.Start(viewtest.ID(made))
			s.SetTime(start)
			made++
		}
	}
	admit(10)
	for _, dir := range []view.Node{view.RunsDir, day()} {
		before := made
		var all []string
		for at := view.Cookie(0); ; {
			names, next := list(t, v, dir, at, 3)
			if len(names) == 0 {
				break
			}
			all, at = append(all, names...), next
			if len(all) < 9 {
				admit(2)
			}
		}
		if len(all) != made || !slices.IsSorted(all) || len(slices.Compact(all)) != made {
			t.Errorf("listed %d names of %d runs, %d of them there at the start", len(all), made, before)
		}
	}
}

func TestRunThatIsPublishedAfterAHigherNumber(t *testing.T) {
	s := viewtest.New(start)
	v := view.New(s, nil)
	s.Start(viewtest.ID(1))
	late, refused := s.Reserve(), s.Reserve()
	s.SetTime(start)
	s.Start(viewtest.ID(4))
	a, err := v.Lookup(view.ByDayDir, "2026-03-01")
	if err != nil {
		t.Fatal(err)
	}
	if names, _ := list(t, v, a.Node, 0, 99); len(names) != 2 {
		t.Fatalf("before: %v", names)
	}
	s.SetTime(start)
	s.StartAt(late, viewtest.ID(2))
	for _, dir := range []view.Node{a.Node, view.RunsDir} {
		names, _ := list(t, v, dir, 0, 99)
		if want := []string{viewtest.ID(1), viewtest.ID(2), viewtest.ID(4)}; !slices.Equal(names, want) {
			t.Errorf("after: %v, want %v", names, want)
		}
	}
	if _, err := v.Attr(view.RunDir(refused)); err != view.ErrStale {
		t.Errorf("a number that is no run any more: %v", err)
	}
	if _, err := v.Attr(view.RunDir(5)); err != view.ErrNotExist {
		t.Errorf("a number that no run has had: %v", err)
	}
}

func TestTimesOfDirectoriesNeverGoBack(t *testing.T) {
	s := viewtest.New(start)
	v := view.New(s, nil)
	mtime := func(path ...string) time.Time {
		a, err := v.Attr(view.Root)
		for _, p := range path {
			if err == nil {
				a, err = v.Lookup(a.Node, p)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return a.Mtime
	}
	s.Start(viewtest.ID(1))
	runsAt, dayAt := mtime("runs"), mtime("by-day", "2026-03-01")
	s.SetTime(start.Add(-time.Hour)) // the wall clock goes back
	s.Start(viewtest.ID(2))
	if now := mtime("runs"); !now.After(runsAt) {
		t.Errorf("/runs: %v after %v", now, runsAt)
	}
	if now := mtime("by-day", "2026-03-01"); !now.After(dayAt) {
		t.Errorf("the day: %v after %v", now, dayAt)
	}
}

func TestHandlesSeeOneMomentAndLogsGrow(t *testing.T) {
	s, status := viewtest.New(start), 0
	v := view.New(s, func() []byte { status++; return []byte{byte('0' + status)} })
	ref := s.Start(viewtest.ID(1))
	s.Append(ref, "one")
	open := func(n view.Node) view.Handle {
		h, err := v.Open(n)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	record, log, stat := open(view.RecordFile(ref)), open(view.LogFile(ref, 0)), open(view.StatusFile)
	was := s.RecordText(ref)
	s.Append(ref, "two")
	if got := read(t, record, 0); !bytes.Equal(got, was) {
		t.Errorf("the record moved under its handle: %s", got)
	}
	if a, b := read(t, stat, 0), read(t, stat, 0); !bytes.Equal(a, b) {
		t.Errorf("the status moved under its handle: %s, %s", a, b)
	}
	if got := read(t, log, 4); string(got) != "two\n" {
		t.Errorf("the log did not grow: %q", got)
	}
	s.ReplaceLog(ref, "short")
	if _, err := v.Attr(view.LogFile(ref, 0)); err != view.ErrStale {
		t.Errorf("a log of an earlier generation: %v", err)
	}
}

func read(t *testing.T, h view.Handle, off int64) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(h, off, h.Size()-off))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNoShortReads(t *testing.T) {
	s, v := sample()
	broken := errors.New("broken")
	s.Fail = func(ref runs.Ref, name string) error {
		if name == "" || name == "report.txt" {
			return broken
		}
		return nil
	}
	for n, want := range map[view.Node]error{
		view.LogFile(3, 0): broken, view.PayloadFile(3, 0): broken, view.PayloadFile(3, 3): nil,
	} {
		h, err := v.Open(n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.ReadAt(make([]byte, 5), 1); err != want || err != nil && got != 0 {
			t.Errorf("node %#x: %d, %v; want %v", uint64(n), got, err, want)
		}
	}
}

func TestDamagedPayloadHidesNothing(t *testing.T) {
	s, v := sample()
	broken := errors.New("broken")
	s.Fail = func(ref runs.Ref, name string) error {
		if name == runs.TerminalName {
			return broken
		}
		return nil
	}
	for _, attrs := range []bool{false, true} {
		var names []string
		err := v.ReadDir(view.RunDir(3), 0, attrs, func(e view.Entry) bool {
			names = append(names, e.Name)
			if attrs && (e.Attr.Node == 0) != (e.Name == "payload" || e.Name == "history") {
				t.Errorf("%s has the attributes %+v", e.Name, e.Attr)
			}
			return true
		})
		if want := []string{"record", "log", "payload", "payloads", "late", "history", "tools"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("listed %v, %v", names, err)
		}
	}
	if _, err := v.Lookup(view.RunDir(3), "payload"); err != broken {
		t.Errorf("looked up: %v", err)
	}
}

// trickle answers as few bytes as it likes, and ends too early.
type trickle struct{ b []byte }

func (r trickle) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(r.b)) {
		return 0, io.EOF
	}
	return copy(p[:min(2, len(p))], r.b[off:]), nil
}

func TestReadFull(t *testing.T) {
	r := trickle{[]byte("0123456789")}
	for _, c := range []struct {
		len  int
		off  int64
		size int64
		want string
		err  error
	}{
		{4, 3, 10, "3456", nil},
		{10, 0, 10, "0123456789", nil},
		{11, 0, 10, "0123456789", io.EOF},
		{4, 10, 10, "", io.EOF},
		{4, 99, 10, "", io.EOF},
		{20, 5, 12, "", io.ErrUnexpectedEOF}, // the size promised more
	} {
		p := make([]byte, c.len)
		n, err := view.ReadFull(p, c.off, c.size, r.ReadAt)
		if string(p[:n]) != c.want || err != c.err {
			t.Errorf("%d at %d of %d: %q, %v; want %q, %v", c.len, c.off, c.size, p[:n], err, c.want, c.err)
		}
	}
}

func TestSnapshotHasNoLaterRuns(t *testing.T) {
	s, v := sample()
	f := v.FS()
	s.SetTime(start.AddDate(1, 0, 0))
	s.Start(viewtest.ID(77))
	if _, err := f.Stat("runs/" + viewtest.ID(77)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a later run: %v", err)
	}
	days, err := f.ReadDir("by-day")
	if err != nil || len(days) != 3 {
		t.Errorf("days: %v, %v", days, err)
	}
	if _, err := v.FS().Stat("runs/" + viewtest.ID(77)); err != nil {
		t.Errorf("a later snapshot: %v", err)
	}
}

func TestEffects(t *testing.T) {
	_, v := sample()
	of := func(ref runs.Ref, kinds runs.ChangeKinds) map[view.Effect]bool {
		got := map[view.Effect]bool{}
		v.Effects(runs.Change{Ref: ref, Kinds: kinds}, func(e view.Effect) { got[e] = true })
		return got
	}
	for kinds, want := range map[runs.ChangeKinds][]view.Effect{
		runs.ChangedLog:      {{What: view.StaleAttr, Node: view.LogFile(3, 0)}, {What: view.StaleAttr, Node: view.RecordFile(3)}, {What: view.StaleAttr, Node: view.RunDir(3)}},
		runs.ChangedAdmitted: {{What: view.StaleAttr, Node: view.RunsDir}, {What: view.StaleAttr, Node: view.ByDayDir}},
		runs.ChangedPayload:  {{What: view.StaleName, Node: view.RunDir(3), Name: "payload"}, {What: view.StaleAttr, Node: view.PayloadsDir(3)}},
		runs.ChangedLate:     {{What: view.StaleName, Node: view.RunDir(3), Name: "late"}},
		runs.ChangedSealed:   {{What: view.StaleData, Node: view.LogFile(3, 0)}, {What: view.StaleName, Node: view.RunDir(3), Name: "payload"}},
		// Another log takes the name of the one before.
		runs.ChangedPhase:   {{What: view.StaleName, Node: view.PhaseDir(runs.Running), Name: viewtest.ID(2)}, {What: view.StaleAttr, Node: view.PhaseDir(runs.Terminal)}},
		runs.ChangedDamaged: {{What: view.StaleName, Node: view.RunDir(3), Name: "log"}, {What: view.StaleAttr, Node: view.RecordFile(3)}},
	} {
		got := of(3, kinds)
		for _, e := range want {
			if !got[e] {
				t.Errorf("kinds %b: %+v is missing in %v", kinds, e, got)
			}
		}
	}
	for e := range of(3, 0xffff) {
		if e.What == view.StaleName && e.Name != "log" && e.Node.Kind() != view.KindFixed && !view.NegativeName(e.Node, e.Name) {
			t.Errorf("%+v is announced, but its absence is not remembered", e)
		}
	}
	if got := of(99, 0xffff&^runs.ChangedRemoved); len(got) != 0 {
		t.Errorf("no run, but effects %v", got)
	}
	gone := of(99, runs.ChangedAdmitted|runs.ChangedRemoved)
	for _, n := range []view.Node{view.RunsDir, view.ByDayDir, view.RunDir(99), view.RecordFile(99)} {
		if !gone[view.Effect{What: view.StaleAttr, Node: n}] {
			t.Errorf("the run was removed, and nothing is told of %v", n)
		}
	}
	if view.NegativeName(view.RunsDir, "payload") || view.NegativeName(view.PayloadsDir(3), "late") {
		t.Error("names that are not announced would be remembered as missing")
	}
}

func TestWatch(t *testing.T) {
	s := viewtest.New(start)
	v := view.New(s, nil)
	var a, b int
	stopA := v.Watch(func(c []runs.Change) { a += len(c) })
	stopB := v.Watch(func(c []runs.Change) { b += len(c) })
	ref := s.Start(viewtest.ID(1))
	stopA()
	s.Append(ref, "x")
	stopB()
	s.Append(ref, "y")
	if a != 1 || b != 2 {
		t.Errorf("watchers were told %d and %d changes, want 1 and 2", a, b)
	}
}

func TestAMillionRunsListAtOnce(t *testing.T) {
	const many = 1_000_000
	v := view.New(million{n: many}, nil)
	looked := testing.AllocsPerRun(1, func() {
		names, _ := list(t, v, view.RunsDir, 0, 10)
		if len(names) != 10 {
			t.Errorf("names: %v", names)
		}
	})
	if looked > 100 {
		t.Errorf("the first ten names of a million cost %v allocations", looked)
	}
	names, _ := list(t, v, view.RunsDir, many-2+3, 10)
	if len(names) != 2 || names[1] != viewtest.ID(many) {
		t.Errorf("the last names: %v", names)
	}
}

// million is a source of many runs that costs nothing.
type million struct {
	view.Source
	n runs.Ref
}

func (m million) Newest() runs.Ref           { return m.n }
func (m million) Listen(func([]runs.Change)) {}
func (m million) Info(ref runs.Ref) (runs.Run, bool) {
	return runs.Run{Ref: ref, ID: viewtest.ID(int(ref)), Phase: runs.Terminal, StartedAt: start}, ref > 0 && ref <= m.n
}
