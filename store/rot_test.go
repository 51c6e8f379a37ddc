package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"durafs/internal/ballast"
	"durafs/runs"
	"durafs/wal"
)

// rotRun is what is known of one run of a store that is to rot.
type rotRun struct {
	id      string
	writer  string
	lines   string // its log
	answer  []byte // its terminal payload, nil for none
	picture []byte // a payload in a pack
	note    []byte // a payload in the log
}

// rotting makes a store with runs in each state (finished in a sealed segment,
// finished in the tail, running in both), and leaves it as a killed process
// does. At its end stands a run that is not looked at: nothing vouches for the
// last batch.
func rotting(t *testing.T) (dir string, all []*rotRun) {
	t.Helper()
	dir = memoryDir(t)
	s := openFor(t, nil, dir)
	for n := range 2 {
		all = append(all, rotLife(t, s, fmt.Sprintf("exec_sealed-%d", n), true))
	}
	all = append(all, rotLife(t, s, "exec_both", false))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = openFor(t, nil, dir)
	for n := range 2 {
		all = append(all, rotLife(t, s, fmt.Sprintf("exec_tail-%d", n), true))
	}
	all = append(all, rotLife(t, s, "exec_open", false))
	for _, r := range all {
		r.lines = string(logOf(t, s, r.id))
	}
	rotLife(t, s, "exec_last", false)
	image := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+"-image")
	t.Cleanup(func() { os.RemoveAll(image) })
	// A copy made file by file may fall between a segment and its place in the
	// MANIFEST; the store comes to rest when its next segment is there.
	for copyTree(t, dir, image); !isWhole(t, image) || !stands(t, dir, image); {
		copyTree(t, dir, image)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return image, all
}

// stands tells whether the files of a log are still those of its copy, and its
// manifest says the same.
func stands(t *testing.T, dir, image string) bool {
	t.Helper()
	segments := func(dir string) (names []string) {
		all, err := filepath.Glob(filepath.Join(dir, walName, "0*.seg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			names = append(names, filepath.Base(n))
		}
		return names
	}
	for _, m := range []string{"MANIFEST-A", "MANIFEST-B"} {
		a, aerr := os.ReadFile(filepath.Join(dir, walName, m))
		b, berr := os.ReadFile(filepath.Join(image, walName, m))
		if aerr != nil || berr != nil || !bytes.Equal(a, b) {
			return false
		}
	}
	return slices.Equal(segments(dir), segments(image))
}

// isWhole tells whether a store, of which this is a copy, opens for writing.
func isWhole(t *testing.T, image string) bool {
	t.Helper()
	probe := image + "-probe"
	copyTree(t, image, probe)
	defer os.RemoveAll(probe)
	s := openFor(t, nil, probe)
	defer s.Close(t.Context())
	return s.readOnly == nil
}

func rotLife(t *testing.T, s *Store, id string, settle bool) *rotRun {
	t.Helper()
	r := &rotRun{id: id, note: []byte("note of " + id), picture: randomBytes(uint64(len(id)), 20<<10)}
	st, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: id, Task: "task of " + id, Labels: runs.Labels{"k": id}})
	if err != nil {
		t.Fatal(err)
	}
	r.writer = st.Writer
	agent := runs.Caller{Writer: r.writer}
	for n := range 4 {
		row := fmt.Sprintf(`{"type":"row","n":%d,"of":%q}`, n, id)
		if _, err := s.Runs().Append(t.Context(), agent, id, []runs.Row{{JSON: []byte(row)}, {JSON: []byte(row)}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string][]byte{"note": r.note, "picture": r.picture} {
		if _, _, err := s.Runs().Put(t.Context(), agent, id, name, runs.SourceNamed, "", bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	}
	if settle {
		r.answer = []byte("answer of " + id)
		_, err := s.Runs().Settle(t.Context(), agent, id, runs.SettleRequest{Status: runs.Success, Summary: id, Payload: bytes.NewReader(r.answer)})
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// logOf reads a run's log in one piece.
func logOf(t *testing.T, s *Store, id string) []byte {
	t.Helper()
	b, err := readLog(s, id)
	if err != nil {
		t.Fatalf("log of %s: %v", id, err)
	}
	return b
}

func readLog(s *Store, id string) ([]byte, error) {
	ref, ok := s.Runs().Lookup(id)
	if !ok {
		return nil, fmt.Errorf("no run %s", id)
	}
	info, _ := s.Runs().Info(ref)
	b := make([]byte, info.LogBytes)
	n, err := s.Runs().ReadLogAt(ref, b, 0)
	if err == nil || errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && int64(n) != info.LogBytes {
		err = fmt.Errorf("%d bytes of %d", n, info.LogBytes)
	}
	return b[:n], err
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	os.RemoveAll(to)
	err := filepath.WalkDir(from, func(name string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, name)
		switch {
		case errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(d.Name(), "spare") || d.Name() == ballast.Name:
			return nil // what a store makes beside its work, and makes anew
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRotOfAStore damages a small store, every region of every file of it: a
// bit, a page, the whole file. Whatever it is, the store opens, what it shows is
// what was acknowledged or is named as lost, and where it opens for writing the
// runs that are not hit work.
func TestRotOfAStore(t *testing.T) {
	image, all := rotting(t)
	r := &rotStore{image: image, all: all}
	var files []string
	filepath.WalkDir(image, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), "spare") && d.Name() != lockName {
			files = append(files, name)
		}
		return nil
	})
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(image, name)
		end := len(bytes.TrimRight(b, "\x00"))
		for _, at := range regions(rel, end) {
			r.try(t, fmt.Sprintf("%s, a bit of byte %d", rel, at), rel, func(b []byte) []byte { b[at] ^= 1 << (at % 8); return b })
		}
		for at := 0; at < end; at += 4096 {
			r.lastPage = at+4096 >= end
			r.try(t, fmt.Sprintf("%s, the page at %d", rel, at), rel, func(b []byte) []byte { clear(b[at:min(len(b), at+4096)]); return b })
		}
		r.lastPage = false
		for _, n := range []int{0, 100, 4096, 4096 + 200, end / 2 &^ 7, end - 1} {
			r.try(t, fmt.Sprintf("%s, cut to %d", rel, n), rel, func(b []byte) []byte { return b[:min(n, len(b))] })
		}
		r.try(t, rel+", gone", rel, nil)
	}
	t.Logf("%d states: %d whole, %d with damaged runs, %d read-only, %d refused", r.states, r.whole, r.damaged, r.readOnly, r.refused)
	if r.whole == 0 || r.damaged == 0 || r.readOnly == 0 {
		t.Error("not every outcome was met")
	}
}

// regions are the bytes of a file to flip a bit of: the beginning, where the
// headers are, densely, then some.
func regions(rel string, end int) []int {
	var at []int
	for i := 0; i < min(end, 80); i += 7 {
		at = append(at, i)
	}
	step := 97
	if strings.HasPrefix(rel, casName) {
		step = 4999
	}
	for i := 4096; i < end; i += step {
		at = append(at, i)
	}
	return at
}

// shortShare is of how many states one is tried where tests are to be short, as
// under the race detector.
const shortShare = 6

type rotStore struct {
	image    string
	all      []*rotRun
	lastPage bool // all that could vouch for what is hit is hit too

	states, whole, damaged, readOnly, refused int
}

func (r *rotStore) try(t *testing.T, what, rel string, edit func([]byte) []byte) {
	t.Helper()
	if r.states++; testing.Short() && r.states%shortShare != 0 {
		return
	}
	dir := r.image + "-rotten"
	copyTree(t, r.image, dir)
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, rel)
	if edit == nil {
		os.Remove(name)
	} else {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, edit(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var found []Finding
	_, verr := Verify(t.Context(), dir, VerifyOptions{Deep: true}, func(f Finding) { found = append(found, f) })
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		// Who the store is cannot be told without store.json.
		if !strings.HasPrefix(rel, configName) {
			t.Fatalf("%s: %v", what, err)
		}
		r.refused++
		return
	}
	defer s.Close(t.Context())
	if verr != nil {
		t.Fatalf("%s: verify: %v", what, verr)
	}
	reads := s.Healthy() != nil
	harmed := 0
	for _, run := range r.all {
		if r.check(t, what, s, run, found, reads) {
			harmed++
		}
	}
	switch {
	case reads:
		r.readOnly++
		if !errors.Is(s.Healthy(), wal.ErrReadOnly) || s.Recovery().ReadOnly == "" {
			t.Fatalf("%s: %v, %+v", what, s.Healthy(), s.Recovery())
		}
		_, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{Task: "t"})
		if !errors.Is(err, wal.ErrReadOnly) {
			t.Fatalf("%s: a start is answered %v", what, err)
		}
		if len(found) == 0 {
			t.Fatalf("%s: read-only, and verify finds nothing", what)
		}
		return
	case harmed > 0:
		r.damaged++
	default:
		r.whole++
	}
	fresh := rotLife(t, s, "exec_fresh", true)
	ref, _ := s.Runs().Lookup(fresh.id)
	if payloads(t, what, s, ref, fresh) {
		t.Fatalf("%s: a new run does not work", what)
	}
}

// check looks at one run, and reports whether it is harmed. One that is not
// said to be damaged is all there; one that is shows in its log what is gone.
func (r *rotStore) check(t *testing.T, what string, s *Store, run *rotRun, found []Finding, reads bool) (harmed bool) {
	t.Helper()
	ref, ok := s.Runs().Lookup(run.id)
	if !ok {
		d := s.Runs().Damage()
		if d.Unnamed == 0 && !d.AnyRun && !reads && !r.lastPage {
			t.Fatalf("%s: the run %s is gone: %+v", what, run.id, s.Recovery())
		}
		return true
	}
	got, err := readLog(s, run.id)
	if err != nil { // found only now
		if got, err = readLog(s, run.id); err != nil {
			t.Fatalf("%s: the log of %s: %v", what, run.id, err)
		}
	}
	rotten := payloads(t, what, s, ref, run) // may find more
	rec, err := s.Runs().Record(ref)
	if err != nil {
		t.Fatalf("%s: the record of %s: %v", what, run.id, err)
	}
	if r.lastPage && !strings.HasPrefix(string(got), run.lines) {
		return true // what was the end of its log looks like a write in flight
	}
	checkLines(t, what, run, string(got), rec, reads)
	if rec.Damaged {
		named := slices.ContainsFunc(found, func(f Finding) bool { return f.Run == run.id || f.Run == "" && f.LSNFrom > 0 })
		if !named {
			t.Fatalf("%s: %s is damaged, and verify finds only %v", what, run.id, found)
		}
		if reads {
			return true
		}
		_, err := s.Runs().Append(t.Context(), runs.Caller{Writer: run.writer}, run.id, []runs.Row{{JSON: []byte(`{}`)}}, "")
		if runs.CodeOf(err) != runs.RunDamaged {
			t.Fatalf("%s: a row for %s is answered %v", what, run.id, err)
		}
		return true
	}
	if rotten && len(found) == 0 {
		t.Fatalf("%s: a payload of %s is rotten, and verify finds nothing", what, run.id)
	}
	if !rec.Damaged && !reads && run.answer == nil {
		works(t, what, s, run)
	}
	return rotten
}

// works takes a run that is whole on to its end.
func works(t *testing.T, what string, s *Store, run *rotRun) {
	t.Helper()
	agent := runs.Caller{Writer: run.writer}
	if _, err := s.Runs().Attach(t.Context(), agent, run.id, runs.AttachRequest{}); err != nil {
		t.Fatalf("%s: attach %s: %v", what, run.id, err)
	}
	if _, err := s.Runs().Append(t.Context(), agent, run.id, []runs.Row{{JSON: []byte(`{"on":1}`)}}, ""); err != nil {
		t.Fatalf("%s: append to %s: %v", what, run.id, err)
	}
	if _, err := s.Runs().Settle(t.Context(), agent, run.id, runs.SettleRequest{Status: runs.Success}); err != nil {
		t.Fatalf("%s: settle %s: %v", what, run.id, err)
	}
}

// checkLines holds a log against the one that was acknowledged: each line of it
// is there, or a line says that its number is gone. The store's own rows of a
// restart may follow.
func checkLines(t *testing.T, what string, run *rotRun, got string, rec *runs.Record, cut bool) {
	t.Helper()
	want := strings.SplitAfter(strings.TrimSuffix(run.lines, "\n"), "\n")
	want[len(want)-1] += "\n"
	lines := strings.SplitAfter(got, "\n")
	lines = lines[:len(lines)-1]
	next, gaps, rows := 1, 0, 0
	for _, line := range lines {
		var from, to int
		if n, _ := fmt.Sscanf(line, `{"by":"store","type":"damaged","seq_from":%d,"seq_to":%d}`, &from, &to); n == 2 {
			if from != next || to < from {
				t.Fatalf("%s: %s: the gap %q at number %d", what, run.id, line, next)
			}
			next, gaps = to+1, gaps+1
			continue
		}
		if line == fmt.Sprintf("{\"by\":\"store\",\"type\":\"damaged\",\"seq_from\":%d,\"seq_to\":null}\n", next) {
			next, gaps = len(want)+1, gaps+1
			continue
		}
		rows++
		if next <= len(want) && line != want[next-1] {
			t.Fatalf("%s: %s: row %d is %q, not %q", what, run.id, next, line, want[next-1])
		}
		if !strings.HasPrefix(line, fmt.Sprintf(`{"seq":%d,`, next)) {
			t.Fatalf("%s: %s: row %d is %q", what, run.id, next, line)
		}
		next++
	}
	if next <= len(want) && !cut {
		t.Fatalf("%s: %s: the log ends with row %d of %d, damaged %v:\n%s", what, run.id, next-1, len(want), rec.Damaged, got)
	}
	if gaps > 0 && !rec.Damaged {
		t.Fatalf("%s: %s: has gaps, and is not damaged", what, run.id)
	}
	if rec.Log.Rows != uint64(rows) || rec.Log.Bytes != int64(len(got)) {
		t.Fatalf("%s: %s: %d rows and %d bytes, the record says %+v", what, run.id, rows, len(got), rec.Log)
	}
}

// payloads reads what the run should have: all of it right, or an error.
func payloads(t *testing.T, what string, s *Store, ref runs.Ref, run *rotRun) (rotten bool) {
	t.Helper()
	list, err := s.Runs().PayloadList(ref)
	if err != nil {
		t.Fatalf("%s: the payloads of %s: %v", what, run.id, err)
	}
	for name, want := range map[string][]byte{"note": run.note, "picture": run.picture, runs.TerminalName: run.answer} {
		if want == nil {
			continue
		}
		got, err := readPayload(s, ref, name)
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%s: the payload %s of %s is not what was stored", what, name, run.id)
		}
		rotten = rotten || err != nil
	}
	for _, p := range list {
		if strings.HasPrefix(p.Name, ".damaged-") {
			rotten = true
			if _, err := s.Runs().OpenPayload(ref, p.Name); err == nil {
				t.Fatalf("%s: %s of %s can be opened", what, p.Name, run.id)
			}
		}
	}
	return rotten
}

func readPayload(s *Store, ref runs.Ref, name string) ([]byte, error) {
	r, err := s.Runs().OpenPayload(ref, name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, r.Size())
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}
