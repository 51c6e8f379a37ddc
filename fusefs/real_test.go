package fusefs_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/zeebo/blake3"

	"durafs/fusefs"
	"durafs/runs"
	"durafs/store"
	"durafs/view"
)

// real is a store on disk, and its mount.
type real struct {
	*store.Store
	mnt string
	srv *fusefs.Server
}

func openReal(t *testing.T, dir, mnt string) *real {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Options{UnsafeFilesystem: true})
	if err != nil {
		t.Fatal(err)
	}
	v := view.New(s.Runs(), func() []byte { return []byte("serving\n") })
	srv, err := fusefs.Mount(fusefs.Options{Dir: mnt, Store: dir, View: v, Log: quiet()})
	if err != nil {
		s.Close(t.Context())
		t.Fatal(err)
	}
	return &real{s, mnt, srv}
}

func (r *real) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.srv.Unmount(ctx); err != nil {
		t.Error(err)
	}
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (r *real) start(t *testing.T, id string) (agent runs.Caller, dir string) {
	t.Helper()
	st, err := r.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{
		ID: id, Task: "a <task> & more", ResumeRequest: []byte("private"), Lease: -1,
		Labels: runs.Labels{"thread": "50 % c"}, Message: json.RawMessage(`"please"`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs.Caller{Writer: st.Writer}, filepath.Join(r.mnt, "runs", id)
}

func (r *real) append(t *testing.T, agent runs.Caller, id, row string) {
	t.Helper()
	if _, err := r.Runs().Append(t.Context(), agent, id, []runs.Row{{JSON: []byte(row)}}, ""); err != nil {
		t.Fatal(err)
	}
}

// TestRealStore leads a run through its life in a real store, and looks at it
// through the mount at each step, and again after a restart.
func TestRealStore(t *testing.T) {
	needMount(t)
	dir, mnt := filepath.Join(t.TempDir(), "store"), mkdir(t, t.TempDir(), "mnt")
	r := openReal(t, dir, mnt)
	const id = "exec_real"
	agent, run := r.start(t, id)
	consistent := func(what string) {
		t.Helper()
		ref, _ := r.Runs().Lookup(id)
		info, _ := r.Runs().Info(ref)
		eventually(t, 3*time.Second, what+": sizes and bytes differ", func() bool {
			log, err := os.ReadFile(run + "/log")
			st, serr := os.Stat(run + "/log")
			rec, rerr := os.ReadFile(run + "/record")
			rst, rserr := os.Stat(run + "/record")
			return err == nil && serr == nil && rerr == nil && rserr == nil &&
				int64(len(log)) == info.LogBytes && st.Size() == info.LogBytes &&
				int64(len(rec)) == rst.Size() && json.Valid(rec)
		})
	}
	consistent("new")
	for i := range 200 {
		r.append(t, agent, id, fmt.Sprintf(`{"type":"note","n":%d,"pad":%q}`, i, strings.Repeat("x", i)))
	}
	consistent("with rows")
	r.append(t, agent, id, `{"type":"big","pad":"`+strings.Repeat("y", 100<<10)+`"}`)
	big := pattern(1<<20 + 5)
	for name, body := range map[string][]byte{"small": []byte("small"), "big": big, "100 %": nil} {
		if _, _, err := r.Runs().Put(t.Context(), agent, id, name, runs.SourceNamed, "", bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	consistent("with payloads")
	call, err := r.Runs().Claim(t.Context(), agent, id, runs.ClaimRequest{CallID: "c1", Name: "bash", Safety: []byte(`"read-only"`), Args: []byte(`{"command":"ls <x>"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Runs().Outcome(t.Context(), agent, id, runs.OutcomeRequest{Call: call.Call, Outcome: []byte(`{"exit":0}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(run + "/payload"); !os.IsNotExist(err) {
		t.Errorf("the payload before the end: %v", err)
	}
	answer := pattern(200_000)
	if _, err := r.Runs().Settle(t.Context(), agent, id, runs.SettleRequest{
		Status: runs.Success, Summary: "done", Payload: bytes.NewReader(answer),
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Second, "the payload does not appear", func() bool {
		b, err := os.ReadFile(run + "/payload")
		return err == nil && bytes.Equal(b, answer)
	})
	consistent("ended")
	if b, err := os.ReadFile(run + "/payloads/big"); err != nil || !bytes.Equal(b, big) {
		t.Errorf("the large payload: %d bytes, %v", len(b), err)
	}
	var rec struct {
		Terminal struct {
			Payload struct{ B3 string }
		}
	}
	b, err := os.ReadFile(run + "/record")
	sum := blake3.Sum256(answer)
	if err = errOr(err, json.Unmarshal(b, &rec)); err != nil || rec.Terminal.Payload.B3 != hex.EncodeToString(sum[:]) {
		t.Errorf("the record names the payload %q, %v; it is %x", rec.Terminal.Payload.B3, err, sum)
	}
	if names, err := os.ReadDir(run + "/payloads"); err != nil || len(names) != 4 {
		t.Errorf("payloads: %v, %v", names, err)
	}
	r.sameAsAnswered(t, id)
	before := snapshot(t, mnt)
	r.close(t)

	r = openReal(t, dir, mnt)
	defer r.close(t)
	after := snapshot(t, mnt)
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s was %.100s and is %.100s", name, was, after[name])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files before the restart, %d after", len(before), len(after))
	}
}

// sameAsAnswered compares files with what the store answers.
func (r *real) sameAsAnswered(t *testing.T, id string) {
	t.Helper()
	owner := runs.Caller{Owner: true}
	ref, _ := r.Runs().Lookup(id)
	var history, thread, call, journal bytes.Buffer
	plain := func(b *bytes.Buffer) *json.Encoder {
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		return e
	}
	err := r.Runs().History(t.Context(), ref, runs.HistoryRequest{}, &history)
	page, terr := r.Runs().Thread(owner, "50 % c", 0, 0)
	calls, cerr := r.Runs().Calls(ref, 0, 0)
	rows, jerr := r.Runs().Journal(owner, "master", 0)
	if err := errors.Join(err, terr, cerr, jerr, plain(&thread).Encode(page)); err != nil {
		t.Fatal(err)
	}
	e := plain(&call)
	e.SetIndent("", "  ")
	if err := e.Encode(calls[0]); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		fmt.Fprintf(&journal, `{"lsn":%d,%s`+"\n", row.LSN, row.JSON[1:])
	}
	for name, want := range map[string]string{
		"/runs/" + id + "/history": history.String(), "/runs/" + id + "/tools/1": call.String(),
		"/threads/50 %25 c/json": thread.String(), "/journal/master": journal.String(),
	} {
		if got, err := os.ReadFile(r.mnt + name); err != nil || string(got) != want || want == "" {
			t.Errorf("%s: %s, %v; the store answers %s", name, got, err, want)
		}
	}
	if b, err := os.ReadFile(r.mnt + "/by-thread/50 %25 c/" + id + "/../../threads/50 %25 c/text"); err != nil || !bytes.Contains(b, []byte("user: please\n")) {
		t.Errorf("the text is %.100q, %v", b, err)
	}
}

// snapshot is each file's inode, size and content by name.
func snapshot(t *testing.T, mnt string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(mnt), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "record" { // it tells the boot
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = fmt.Sprint(inode(info), " ", info.Mode())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(filepath.Join(mnt, path))
			if err != nil || int64(len(b)) != info.Size() {
				t.Errorf("%s: %d bytes of %d, %v", path, len(b), info.Size(), err)
			}
			all[path] += fmt.Sprintf(" %x", blake3.Sum256(b))
		}
		return nil
	})
	if err != nil || len(all) < 10 {
		t.Errorf("%d files: %v", len(all), err)
	}
	return all
}

// TestRealStoreUnderTail follows a run's log with tail while rows are
// acknowledged.
func TestRealStoreUnderTail(t *testing.T) {
	needMount(t)
	r := openReal(t, filepath.Join(t.TempDir(), "store"), mkdir(t, t.TempDir(), "mnt"))
	defer r.close(t)
	const id, rows = "exec_tail", 300
	agent, run := r.start(t, id)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	tail := exec.Command("tail", "-f", "-s", "0.1", "-n", "+1", run+"/log")
	tail.Stdout = out
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		r.append(t, agent, id, fmt.Sprintf(`{"n":%d}`, i))
	}
	ref, _ := r.Runs().Lookup(id)
	info, _ := r.Runs().Info(ref)
	want := make([]byte, info.LogBytes)
	if _, err := r.Runs().ReadLogAt(ref, want, 0); err != nil {
		t.Fatal(err)
	}
	written := func() int64 { // what it has read it writes a moment later
		st, err := out.Stat()
		if err != nil {
			return 0
		}
		return st.Size()
	}
	eventually(t, 5*time.Second, "tail does not get to the end", func() bool { return written() >= info.LogBytes })
	tail.Process.Kill()
	tail.Wait()
	got, err := os.ReadFile(out.Name())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("tail wrote %d bytes, the log has %d: %v", len(got), len(want), err)
	}
}

// TestRealPayloadIsDeleted: what the kernel remembers of a payload does not
// outlast it; who has it open reads on.
func TestRealPayloadIsDeleted(t *testing.T) {
	needMount(t)
	r := openReal(t, filepath.Join(t.TempDir(), "store"), mkdir(t, t.TempDir(), "mnt"))
	defer r.close(t)
	const id = "exec_deleted"
	agent, run := r.start(t, id)
	body := pattern(300_000)
	for _, name := range []string{"gone", "kept"} {
		if _, _, err := r.Runs().Put(t.Context(), agent, id, name, runs.SourceNamed, "", bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	for _, sealed := range []bool{false, true} {
		name := "gone"
		if sealed {
			name = "kept"
			if _, err := r.Runs().Settle(t.Context(), agent, id, runs.SettleRequest{Status: runs.Success}); err != nil {
				t.Fatal(err)
			}
		}
		file := run + "/payloads/" + name
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, body) { // now the kernel knows it
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := r.Runs().DeletePayload(t.Context(), runs.Caller{Owner: true}, id, name); err != nil {
			t.Fatal(err)
		}
		eventually(t, 5*time.Second, name+" is still there", func() bool {
			_, err := os.Stat(file)
			list, lerr := os.ReadDir(run + "/payloads")
			return os.IsNotExist(err) && lerr == nil && !slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == name })
		})
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
			t.Errorf("who has it open reads %d bytes, %v", len(got), err)
		}
	}
	if late, err := os.ReadFile(run + "/late"); err != nil || !strings.Contains(string(late), `"name":"kept"`) {
		t.Errorf("late: %s, %v", late, err)
	}
}

func TestRealStorePassesTheStandardTest(t *testing.T) {
	needMount(t)
	r := openReal(t, filepath.Join(t.TempDir(), "store"), mkdir(t, t.TempDir(), "mnt"))
	defer r.close(t)
	agent, _ := r.start(t, "exec_std")
	r.append(t, agent, "exec_std", `{"type":"note"}`)
	if _, err := r.Runs().Settle(t.Context(), agent, "exec_std", runs.SettleRequest{
		Status: runs.Success, Payload: strings.NewReader("the answer"),
	}); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(os.DirFS(r.mnt), "runs/exec_std/payload", "runs/exec_std/log", "status"); err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(view.New(r.Runs(), nil).FS(), "runs/exec_std/payload", "status"); err != nil {
		t.Error(err)
	}
}
