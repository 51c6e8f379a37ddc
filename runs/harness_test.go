package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"durafs/cas"
	"durafs/internal/clock"
	"durafs/internal/vfs"
	"durafs/segment"
	"durafs/wal"
)

var ctx = context.Background()

// world is a store on a real log and a real chunk store, which can be closed,
// broken and opened again.
type world struct {
	t      testing.TB
	fs     vfs.FS
	dir    string
	ledger *memLedger
	s      *Store
	log    *wal.Log
	cas    *cas.Store
	frames []wal.Frame // those of the log at the last open
	clock  clock.Clock // nil for the system's

	projectionTimeout time.Duration // 0 for the default
	segmentBytes      int64         // of the log's segments, 0 for the usual ones
	quota             quota         // zero for none
	replays           bool          // all batches are replayed, and no footer is used
	sinks             []string
}

func newWorld(t testing.TB) *world {
	w := newWorldAt(t, fastDir(t))
	t.Cleanup(w.close)
	return w
}

func newWorldAt(t testing.TB, dir string) *world {
	w := &world{t: t, fs: vfs.OS, dir: dir, ledger: new(memLedger)}
	w.mustOpen()
	return w
}

func (w *world) mustOpen() {
	w.t.Helper()
	if err := w.open(); err != nil {
		w.t.Fatalf("open: %v", err)
	}
}

func (w *world) open() error {
	w.frames = nil
	s := New(Options{StoreKey: []byte("the store's key"), Clock: w.clock, ProjectionTimeout: w.projectionTimeout, RunBytesMax: w.quota.runBytesMax, StoreBytesMax: w.quota.storeBytesMax, Sinks: w.sinks, SinkAttempts: testSinkAttempts})
	o := wal.Options{SegmentBytesMax: w.segmentBytes, Damaged: s.ReplayLost}
	if !w.replays {
		o.Derived = s
	}
	log, err := openLog(w.fs, filepath.Join(w.dir, "wal"), o, s.Replay)
	if err != nil {
		return err
	}
	w.log = log
	w.readFrames()
	if w.cas, err = openChunks(w.fs, filepath.Join(w.dir, "cas"), w.ledger, s.UsedPacks()); err != nil {
		return err
	}
	w.s = s
	return s.Boot(ctx, log, w.cas)
}

// readFrames reads all frames of the log, which nobody writes yet.
func (w *world) readFrames() {
	w.t.Helper()
	w.frames = nil
	names, err := w.fs.ReadDir(filepath.Join(w.dir, "wal"))
	if err != nil {
		w.t.Fatal(err)
	}
	pos := wal.Position{Offset: segment.HeaderBytes}
	for _, name := range names {
		if n, _ := fmt.Sscanf(name, "%010d.seg", &pos.Segment); n == 1 {
			break
		}
	}
	for {
		f, next, err := w.log.ReadBatch(pos, nil)
		if errors.Is(err, wal.ErrEnd) {
			return
		}
		if rotten(err) != nil && next != pos {
			pos = next
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		f.Payload = bytes.Clone(f.Payload)
		w.frames = append(w.frames, f)
		pos = next
	}
}

func (w *world) close() {
	if w.cas != nil {
		w.cas.Close()
	}
	if w.log != nil {
		w.log.Close(ctx)
	}
	w.s, w.cas, w.log = nil, nil, nil
}

func (w *world) reopen() {
	w.t.Helper()
	w.close()
	w.mustOpen()
}

// memLedger is a list of packs that outlives the stores of a test.
type memLedger struct {
	mu    sync.Mutex
	packs map[uint32]cas.Pack
}

func (l *memLedger) Packs() []cas.Pack {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []cas.Pack
	for _, p := range l.packs {
		all = append(all, p)
	}
	return all
}

func (l *memLedger) AddPack(p cas.Pack) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.packs == nil {
		l.packs = map[uint32]cas.Pack{}
	}
	l.packs[p.Seq] = p
	return nil
}

func (l *memLedger) SealPack(p cas.Pack) error { return l.AddPack(p) }

// agent is the writer of one run.
type agent struct {
	w  *world
	id string
	c  Caller
}

func (w *world) start(r StartRequest) *agent {
	w.t.Helper()
	st, err := w.s.Start(ctx, Caller{UID: 7}, r)
	if err != nil {
		w.t.Fatalf("start: %v", err)
	}
	return &agent{w, st.Record.ID, Caller{UID: 7, Writer: st.Writer}}
}

func (a *agent) append(rows ...string) (Appended, error) {
	return a.w.s.Append(ctx, a.c, a.id, rowsOf(rows...), "")
}

func rowsOf(texts ...string) []Row {
	rows := make([]Row, len(texts))
	for i, s := range texts {
		rows[i].JSON = []byte(s)
	}
	return rows
}

func (a *agent) mustAppend(rows ...string) Appended {
	a.w.t.Helper()
	got, err := a.append(rows...)
	if err != nil {
		a.w.t.Fatalf("append: %v", err)
	}
	return got
}

func (a *agent) put(name, content string) (PayloadInfo, bool, error) {
	return a.w.s.Put(ctx, a.c, a.id, name, SourceNamed, "text/plain", strings.NewReader(content))
}

func (a *agent) mustPut(name, content string) {
	a.w.t.Helper()
	if _, _, err := a.put(name, content); err != nil {
		a.w.t.Fatalf("put: %v", err)
	}
}

func (a *agent) settle(status Status, answer string) (Settled, error) {
	r := SettleRequest{Status: status, Summary: "it is " + string(status)}
	if answer != "" {
		r.Payload = strings.NewReader(answer)
	}
	return a.w.s.Settle(ctx, a.c, a.id, r)
}

func (a *agent) mustSettle(answer string) {
	a.w.t.Helper()
	if _, err := a.settle(Success, answer); err != nil {
		a.w.t.Fatalf("settle: %v", err)
	}
}

func (a *agent) mustAttach() {
	a.w.t.Helper()
	if _, err := a.w.s.Attach(ctx, a.c, a.id, AttachRequest{}); err != nil {
		a.w.t.Fatalf("attach: %v", err)
	}
}

func (w *world) ref(id string) Ref {
	w.t.Helper()
	ref, ok := w.s.Lookup(id)
	if !ok {
		w.t.Fatalf("there is no run %s", id)
	}
	return ref
}

func (w *world) info(id string) Run {
	w.t.Helper()
	run, ok := w.s.Info(w.ref(id))
	if !ok {
		w.t.Fatalf("run %s is not in the index", id)
	}
	return run
}

// logText reads the whole log, in pieces of an odd size, and checks it against
// the index.
func (w *world) logText(id string) string {
	w.t.Helper()
	run := w.info(id)
	var text []byte
	buf := make([]byte, 3000)
	for {
		n, err := w.s.ReadLogAt(run.Ref, buf, int64(len(text)))
		text = append(text, buf[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			w.t.Fatalf("read log of %s at %d: %v", id, len(text), err)
		}
	}
	if int64(len(text)) != run.LogBytes || bytes.Count(text, []byte("\n")) != int(run.Rows) {
		w.t.Fatalf("the log has %d bytes and %d rows, the index says %d and %d", len(text), bytes.Count(text, []byte("\n")), run.LogBytes, run.Rows)
	}
	return string(text)
}

// logRow is a line of the log.
type logRow struct {
	Seq  uint64
	By   string
	Type string
	raw  string
}

func (w *world) rows(id string) []logRow {
	w.t.Helper()
	var rows []logRow
	for i, line := range strings.Split(strings.TrimSuffix(w.logText(id), "\n"), "\n") {
		r := logRow{raw: line}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Seq != uint64(i+1) {
			w.t.Fatalf("line %d is %q (%v)", i+1, line, err)
		}
		rows = append(rows, r)
	}
	return rows
}

// agentRows are the log's lines that are not the store's own, without seq.
func (w *world) agentRows(id string) []string {
	w.t.Helper()
	var out []string
	for _, r := range w.rows(id) {
		if r.By == "" {
			text, err := takeOut([]byte(r.raw), r.Seq)
			if err != nil {
				w.t.Fatal(err)
			}
			out = append(out, string(text))
		}
	}
	return out
}

func (w *world) ownTypes(id string) string {
	w.t.Helper()
	var types []string
	for _, r := range w.rows(id) {
		if r.By == "store" {
			types = append(types, r.Type)
		}
	}
	return strings.Join(types, " ")
}

func (w *world) payload(id, name string) (string, error) {
	r, err := w.s.OpenPayload(w.ref(id), name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	return string(b), err
}

func (w *world) late(id string) string {
	w.t.Helper()
	run := w.info(id)
	var text []byte
	buf := make([]byte, 1000)
	for {
		n, err := w.s.ReadLateAt(run.Ref, buf, int64(len(text)))
		text = append(text, buf[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if int64(len(text)) != run.LateBytes || bytes.Count(text, []byte("\n")) != int(run.LateRows) {
		w.t.Fatalf("late has %d bytes, the index says %d", len(text), run.LateBytes)
	}
	return string(text)
}

// picture is all that can be seen of the store, for comparing before and
// after.
func (w *world) picture() string {
	w.t.Helper()
	var b strings.Builder
	for ref := Ref(1); ref <= w.s.Newest(); ref++ {
		run, ok := w.s.Info(ref)
		if !ok {
			continue
		}
		rec, err := w.s.Record(ref)
		if err != nil {
			w.t.Fatal(err)
		}
		list, err := w.s.PayloadList(ref)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%+v\n%s\n%s\n%s%s\n", run, mustJSON(rec), mustJSON(list), w.logText(run.ID), w.late(run.ID))
	}
	fmt.Fprintf(&b, "%v\n", w.s.Counts())
	return b.String()
}

// count tells how many replayed entries of a kind and flags there are of a run.
func (w *world) count(num uint32, k kind, flags uint8) int {
	w.t.Helper()
	n := 0
	for _, f := range w.frames {
		b, err := decodeBatch(f.Payload)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range b.entries {
			if e.kind == k && e.run == num && e.flags&flags == flags {
				n++
			}
		}
	}
	return n
}

// checkJournal checks that each stamp tells the LSN of the journal's row before
// it.
func (w *world) checkJournal() {
	w.t.Helper()
	last := uint64(0)
	for _, f := range w.frames {
		b, err := decodeBatch(f.Payload)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range b.entries {
			if e.kind != kindJournal {
				continue
			}
			if b.stamp.journal != last {
				w.t.Fatalf("LSN %d says that the journal's last row is in LSN %d, and it is in %d", f.LSN, b.stamp.journal, last)
			}
			last = f.LSN
		}
	}
}

func wantCode(t testing.TB, err error, code Code) *Refusal {
	t.Helper()
	if CodeOf(err) != code {
		t.Fatalf("got %v (%T), want %s", err, err, code)
	}
	r, _ := err.(*Refusal)
	return r
}

// fastDir is a directory in memory where there is one: what these tests check
// does not depend on the disk, and opening a store writes a spare segment.
func fastDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "durafs-runs-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// yield lets others run, for a loop that waits for a condition.
func yield() { runtime.Gosched() }

// yieldLong lets whoever could run come to where it waits.
func yieldLong() {
	for range 10_000 {
		runtime.Gosched()
	}
}
