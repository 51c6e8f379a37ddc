package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/zeebo/blake3"

	"durafs/cas"
	"durafs/runs"
)

// fake is a domain in memory, for what a real store does not do on demand:
// hold a barrier back, be busy, fail, panic.
type fake struct {
	lifecycle // not faked
	outbox

	mu   sync.Mutex
	runs map[string]*fakeRun
	refs []*fakeRun
	keys map[string]*fakeRun

	// Hooks, set before the server is used or under mu.
	onStart  func() error
	onAppend func(rows []runs.Row) error // at the accept step
	barrier  func() error                // what a wait waits for
	onRead   func(off int64) error       // of payloads
}

type fakeRun struct {
	rec      runs.Record
	ref      runs.Ref
	token    string
	log      []byte
	lines    []int64 // offset of each row
	changed  chan struct{}
	payloads map[string]fakePayload
	keys     map[string]uint64
}

type fakePayload struct {
	info  runs.PayloadInfo
	bytes []byte
}

func newFake() *fake {
	return &fake{runs: map[string]*fakeRun{}, keys: map[string]*fakeRun{}}
}

func (f *fake) Start(ctx context.Context, c runs.Caller, q runs.StartRequest) (runs.Started, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onStart != nil {
		if err := f.onStart(); err != nil {
			return runs.Started{}, err
		}
	}
	if r := f.keys[q.IdempotencyKey]; r != nil && q.IdempotencyKey != "" {
		return runs.Started{Record: &r.rec, Epoch: 1, Writer: r.token, ETag: "1-1", Replayed: true}, nil
	}
	id := q.ID
	if id == "" {
		id = fmt.Sprintf("00000000-0000-7000-8000-%012x", len(f.refs)+1)
	}
	if f.runs[id] != nil {
		return runs.Started{}, &runs.Refusal{Code: runs.RunExists, Detail: "it exists"}
	}
	r := &fakeRun{
		rec:   runs.Record{ID: id, Phase: "running", Revision: 1, Epoch: 1, Labels: q.Labels, LeaseMS: q.Lease.Milliseconds(), UID: c.UID},
		ref:   runs.Ref(len(f.refs) + 1),
		token: "token-of-" + id, changed: make(chan struct{}),
		payloads: map[string]fakePayload{}, keys: map[string]uint64{},
	}
	f.runs[id], f.keys[q.IdempotencyKey] = r, r
	f.refs = append(f.refs, r)
	return runs.Started{Record: &r.rec, Epoch: 1, Writer: r.token, ETag: "1-1"}, nil
}

func (f *fake) find(c runs.Caller, id string, write bool) (*fakeRun, error) {
	if _, err := runs.ParseID(id); err != nil {
		return nil, err
	}
	r := f.runs[id]
	switch {
	case r == nil:
		return nil, &runs.Refusal{Code: runs.UnknownRun, Detail: "there is no such run"}
	case c.Owner && !write:
		return r, nil
	case c.Writer == "":
		return nil, &runs.Refusal{Code: runs.NotOwner, Detail: "it is not yours"}
	case c.Writer != r.token:
		return nil, &runs.Refusal{Code: runs.WrongToken, Detail: "the token is not this run's"}
	case write && r.rec.Terminal != nil:
		return nil, &runs.Refusal{Code: runs.Finished, Detail: "it is finished"}
	}
	return r, nil
}

func (r *fakeRun) publish() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (f *fake) Beat(ctx context.Context, c runs.Caller, id, note string) (*runs.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(c, id, true)
	if err != nil {
		return nil, err
	}
	rec := r.rec
	return &rec, nil
}

func (f *fake) Append(ctx context.Context, c runs.Caller, id string, rows []runs.Row, key string) (runs.Appended, error) {
	wait, err := f.accept(c, id, rows, key)
	if err != nil {
		return runs.Appended{}, err
	}
	return wait()
}

func (f *fake) AppendStart(ctx context.Context, c runs.Caller, id string, rows []runs.Row, key string, _ *runs.Chain) (func(context.Context) (runs.Appended, error), error) {
	wait, err := f.accept(c, id, rows, key)
	return func(context.Context) (runs.Appended, error) { return wait() }, err
}

func (f *fake) EndChain(*runs.Chain) {}

func (f *fake) accept(c runs.Caller, id string, rows []runs.Row, key string) (func() (runs.Appended, error), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(c, id, true)
	if err != nil {
		return nil, err
	}
	if f.onAppend != nil {
		if err := f.onAppend(rows); err != nil {
			return nil, err
		}
	}
	for i, row := range rows {
		if !json.Valid(row.JSON) || row.JSON[0] != '{' {
			return nil, &runs.Refusal{Code: runs.RowNotObject, Detail: "the row is not an object", Row: i + 1}
		}
	}
	a := runs.Appended{FirstSeq: r.rec.Log.LastSeq + 1, Rows: len(rows)}
	for _, row := range rows {
		a.LastSeq = r.add(row.JSON, key)
	}
	barrier := f.barrier
	return func() (runs.Appended, error) {
		if barrier != nil {
			if err := barrier(); err != nil {
				return runs.Appended{}, err
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		r.publish()
		return a, nil
	}, nil
}

// add appends one row, unless its key is there.
func (r *fakeRun) add(row []byte, key string) uint64 {
	if key != "" {
		var m map[string]json.RawMessage
		json.Unmarshal(row, &m)
		k := string(m[key])
		if seq := r.keys[k]; seq != 0 {
			return seq
		}
		r.keys[k] = r.rec.Log.LastSeq + 1
	}
	r.rec.Log.LastSeq++
	r.rec.Log.Rows++
	r.lines = append(r.lines, int64(len(r.log)))
	comma := ","
	if string(row) == "{}" {
		comma = ""
	}
	r.log = append(r.log, fmt.Sprintf(`{"seq":%d%s`, r.rec.Log.LastSeq, comma)...)
	r.log = append(append(r.log, row[1:]...), '\n')
	r.rec.Log.Bytes = int64(len(r.log))
	return r.rec.Log.LastSeq
}

func (f *fake) Put(ctx context.Context, c runs.Caller, id, name string, source runs.Source, contentType string, rd io.Reader) (runs.PayloadInfo, bool, error) {
	b, err := io.ReadAll(rd)
	if err != nil {
		return runs.PayloadInfo{}, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(c, id, true)
	if err != nil {
		return runs.PayloadInfo{}, false, err
	}
	if old, ok := r.payloads[name]; ok {
		if bytes.Equal(old.bytes, b) {
			return old.info, true, nil
		}
		return runs.PayloadInfo{}, false, &runs.Refusal{Code: runs.PayloadConflict, Detail: "other bytes"}
	}
	info := runs.PayloadInfo{Name: name, B3: cas.ID(blake3.Sum256(b)), Bytes: int64(len(b)), ContentType: contentType, Source: source}
	r.payloads[name] = fakePayload{info, b}
	return info, false, nil
}

func (f *fake) Settle(ctx context.Context, c runs.Caller, id string, q runs.SettleRequest) (runs.Settled, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(c, id, true)
	if err != nil {
		return runs.Settled{}, err
	}
	if _, ok := r.payloads[q.PayloadName]; !ok && q.PayloadName != "" {
		return runs.Settled{}, &runs.Refusal{Code: runs.UnknownPayload, Detail: "there is no such payload"}
	}
	if q.Payload != nil {
		b, err := io.ReadAll(q.Payload)
		if err != nil {
			return runs.Settled{}, err
		}
		r.payloads[runs.TerminalName] = fakePayload{runs.PayloadInfo{Name: runs.TerminalName, B3: cas.ID(blake3.Sum256(b)), Bytes: int64(len(b)), Source: runs.SourceTerminal}, b}
	}
	r.rec.Phase, r.rec.Terminal = "terminal", &runs.Outcome{Status: q.Status, Summary: q.Summary}
	r.publish()
	return runs.Settled{Record: &r.rec, ETag: "1-2"}, nil
}

func (f *fake) Attach(ctx context.Context, c runs.Caller, id string, q runs.AttachRequest) (runs.Started, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	if r == nil || c.Writer != r.token {
		return runs.Started{}, &runs.Refusal{Code: runs.WrongToken, Detail: "the token is not this run's"}
	}
	return runs.Started{Record: &r.rec, Epoch: 1, Writer: r.token, ETag: "1-3"}, nil
}

func (f *fake) Get(c runs.Caller, id string) (*runs.Record, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(c, id, false)
	if err != nil {
		return nil, "", err
	}
	rec := r.rec
	return &rec, "1-1", nil
}

func (f *fake) List(c runs.Caller, q runs.ListQuery) (runs.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := runs.Page{Policy: runs.DefaultPolicy}
	for _, r := range slices.Backward(f.refs) {
		if c.Owner || r.rec.UID == c.UID {
			rec := r.rec
			p.Runs = append(p.Runs, &rec)
		}
	}
	return p, nil
}

func (f *fake) Look(c runs.Caller, id string) (runs.Ref, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(c, id, false)
	if err != nil {
		return 0, err
	}
	return r.ref, nil
}

func (f *fake) Claim(ctx context.Context, c runs.Caller, id string, r runs.ClaimRequest) (runs.Claimed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.find(c, id, true)
	return runs.Claimed{Call: 1, Attempt: 1}, err
}

func (f *fake) Again(ctx context.Context, c runs.Caller, id string, r runs.AgainRequest) (runs.Claimed, error) {
	return f.Claim(ctx, c, id, runs.ClaimRequest{})
}

func (f *fake) Outcome(ctx context.Context, c runs.Caller, id string, r runs.OutcomeRequest) (runs.Committed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.find(c, id, true)
	return runs.Committed{Call: r.Call, Outcome: r.Outcome}, err
}

func (f *fake) History(ctx context.Context, ref runs.Ref, r runs.HistoryRequest, w io.Writer) error {
	return nil
}

func (f *fake) at(ref runs.Ref) *fakeRun { return f.refs[ref-1] }

func (f *fake) Info(ref runs.Ref) (runs.Run, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.at(ref)
	i := runs.Run{Ref: ref, ID: r.rec.ID, Phase: runs.Running, LogBytes: int64(len(r.log)), LastSeq: r.rec.Log.LastSeq, Rows: r.rec.Log.Rows}
	if r.rec.Terminal != nil {
		i.Phase = runs.Terminal
	}
	return i, true
}

func (f *fake) ReadLogAt(ref runs.Ref, p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.NewReader(f.at(ref).log).ReadAt(p, off)
}

func (f *fake) LogOffset(ref runs.Ref, seq uint64) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.at(ref)
	if seq > uint64(len(r.lines)) {
		return int64(len(r.log)), nil
	}
	return r.lines[max(seq, 1)-1], nil
}

func (f *fake) PayloadInfo(ref runs.Ref, name string) (runs.PayloadInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.at(ref).payloads[name]
	if !ok {
		return runs.PayloadInfo{}, &runs.Refusal{Code: runs.UnknownPayload, Detail: "there is no such payload"}
	}
	return p.info, nil
}

func (f *fake) OpenPayload(ref runs.Ref, name string) (runs.PayloadReader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.at(ref).payloads[name]
	if !ok {
		return nil, &runs.Refusal{Code: runs.UnknownPayload, Detail: "there is no such payload"}
	}
	return &fakeReader{bytes.NewReader(p.bytes), f.onRead}, nil
}

type fakeReader struct {
	*bytes.Reader
	onRead func(int64) error
}

func (r *fakeReader) ReadAt(p []byte, off int64) (int, error) {
	if r.onRead != nil {
		if err := r.onRead(off); err != nil {
			return 0, err
		}
	}
	return r.Reader.ReadAt(p, off)
}

func (f *fake) Changed(ref runs.Ref) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at(ref).changed
}

func (f *fake) Watch(c runs.Caller, q runs.WatchQuery) (*runs.Watcher, error) {
	return nil, &runs.Refusal{Code: runs.NotOwner, Detail: "this domain tells of no changes"}
}

func (f *fake) Threads(c runs.Caller, after string, limit int) ([]runs.ThreadInfo, bool, error) {
	return nil, false, nil
}

func (f *fake) Thread(c runs.Caller, name string, before uint64, limit int) (runs.ThreadPage, error) {
	return runs.ThreadPage{Thread: name}, nil
}

func (f *fake) Post(ctx context.Context, c runs.Caller, name string, r runs.PostRequest) (runs.Posted, error) {
	return runs.Posted{}, nil
}

func (f *fake) Journal(c runs.Caller, target string, after uint64) ([]runs.JournalRow, error) {
	return nil, nil
}

func (f *fake) Targets(c runs.Caller) ([]runs.Target, error) { return nil, nil }

func (f *fake) Enrol(ctx context.Context, c runs.Caller, name string, enrolled bool) (runs.Target, error) {
	return runs.Target{Name: name, Enrolled: enrolled}, nil
}

// logOf is the whole log of a run.
func (f *fake) logOf(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.runs[id].log)
}
