package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/wal"
)

// barrier is a file system whose log's barriers a test can hold open.
type barrier struct {
	vfs.FS

	mu      sync.Mutex
	held    chan struct{} // nil: barriers pass
	entered chan struct{} // gets a value per barrier that is held
	fail    error         // what held barriers answer when let go
	group   map[string]bool
}

// isGroup tells the write of a group of frames from those of blocks: spare
// segments are written ahead in whole ones.
func isGroup(c vfs.Call) bool {
	return c.Op == vfs.OpWrite && strings.HasSuffix(c.Name, ".seg") && c.Len%512 != 0
}

func newBarrier() *barrier {
	b := &barrier{entered: make(chan struct{}, 100), group: map[string]bool{}}
	b.FS = vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		b.mu.Lock()
		if c.Op == vfs.OpWrite {
			b.group[c.Name] = isGroup(c)
		}
		held := b.held
		if c.Op != vfs.OpDatasync || !b.group[c.Name] {
			held = nil
		}
		b.mu.Unlock()
		if held == nil {
			return do(vfs.Whole)
		}
		b.entered <- struct{}{}
		<-held
		b.mu.Lock()
		fail := b.fail
		b.mu.Unlock()
		if fail != nil {
			return fail
		}
		return do(vfs.Whole)
	})
	return b
}

func (b *barrier) hold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = make(chan struct{})
}

func (b *barrier) letGo(fail error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
	close(b.held)
	b.held = nil
}

// TestAnswersWait holds a barrier open and asks what is decided on values
// that are accepted and not yet durable. No answer may come, no reader may see
// them; let go, each answer is what it has to be; failed, each is that the
// outcome is unknown, and never what was derived.
func TestAnswersWait(t *testing.T) {
	for _, fail := range []error{nil, syscall.EIO} {
		t.Run(fmt.Sprint(fail), func(t *testing.T) { answersWait(t, fail) })
	}
}

func answersWait(t *testing.T, fail error) {
	b := newBarrier()
	w := &world{t: t, fs: b, dir: fastDir(t), ledger: new(memLedger)}
	t.Cleanup(w.close)
	w.mustOpen()
	key := w.start(StartRequest{ID: "exec_key"})
	name := w.start(StartRequest{ID: "exec_name"})
	end := w.start(StartRequest{ID: "exec_end"})
	epoch := w.start(StartRequest{ID: "exec_epoch", IdempotencyKey: "e"})
	before := w.picture()

	asks := []struct {
		name string
		code Code // "" for success
		do   func(ctx context.Context) error
	}{
		// First those that write, then those whose answers rest on them.
		{"start", "", func(ctx context.Context) error {
			_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: "exec_new", IdempotencyKey: "n"})
			return err
		}},
		{"row", "", func(ctx context.Context) error {
			_, err := w.s.Append(ctx, key.c, key.id, rowsOf(`{"k":1}`), "k")
			return err
		}},
		{"payload", "", func(ctx context.Context) error {
			_, _, err := w.s.Put(ctx, name.c, name.id, "p", "", "", strings.NewReader("x"))
			return err
		}},
		{"settle", "", func(ctx context.Context) error {
			_, err := w.s.Settle(ctx, end.c, end.id, SettleRequest{Status: Success})
			return err
		}},
		{"raise the epoch", "", func(ctx context.Context) error {
			_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: "exec_epoch", IdempotencyKey: "e"})
			return err
		}},

		{"same id", RunExists, func(ctx context.Context) error {
			_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: "exec_new"})
			return err
		}},
		{"same key, other body", IdempotencyMismatch, func(ctx context.Context) error {
			_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{IdempotencyKey: "n", BodyHash: [32]byte{9}})
			return err
		}},
		{"write to the new run with no token of it", WrongToken, func(ctx context.Context) error {
			_, err := w.s.Append(ctx, key.c, "exec_new", rowsOf(`{}`), "")
			return err
		}},
		{"same row", "", func(ctx context.Context) error {
			got, err := w.s.Append(ctx, key.c, key.id, rowsOf(`{"k":1}`), "k")
			if err == nil && !got.Replayed {
				err = errors.New("not replayed")
			}
			return err
		}},
		{"same key, other row", KeyConflict, func(ctx context.Context) error {
			_, err := w.s.Append(ctx, key.c, key.id, rowsOf(`{"k":1,"x":1}`), "k")
			return err
		}},
		{"same payload", "", func(ctx context.Context) error {
			_, replayed, err := w.s.Put(ctx, name.c, name.id, "p", "", "", strings.NewReader("x"))
			if err == nil && !replayed {
				err = errors.New("not replayed")
			}
			return err
		}},
		{"same name, other payload", PayloadConflict, func(ctx context.Context) error {
			_, _, err := w.s.Put(ctx, name.c, name.id, "p", "", "", strings.NewReader("y"))
			return err
		}},
		{"same outcome", "", func(ctx context.Context) error {
			got, err := w.s.Settle(ctx, end.c, end.id, SettleRequest{Status: Success})
			if err == nil && !got.Replayed {
				err = errors.New("not replayed")
			}
			return err
		}},
		{"other outcome", SettleConflict, func(ctx context.Context) error {
			_, err := w.s.Settle(ctx, end.c, end.id, SettleRequest{Status: Failure})
			return err
		}},
		{"row after the end", Finished, func(ctx context.Context) error {
			_, err := w.s.Append(ctx, end.c, end.id, rowsOf(`{}`), "")
			return err
		}},
		{"beat after the end", Finished, func(ctx context.Context) error {
			_, err := w.s.Beat(ctx, end.c, end.id, "")
			return err
		}},
		{"row with the former token", StaleWriter, func(ctx context.Context) error {
			_, err := w.s.Append(ctx, epoch.c, epoch.id, rowsOf(`{}`), "")
			return err
		}},
		{"settle with a former revision", RevisionMismatch, func(ctx context.Context) error {
			_, err := w.s.Settle(ctx, Caller{Writer: w.s.token(4, 2, purposeWriter)}, epoch.id, SettleRequest{Status: Success, IfMatch: `"4-1"`})
			return err
		}},
	}
	b.hold()
	answers := make([]chan error, len(asks))
	for i, ask := range asks {
		answers[i] = make(chan error, 1)
		accepted := w.accepted()
		go func() { answers[i] <- ask.do(ctx) }()
		if i == 0 {
			<-b.entered // the barrier of the first is under way
		}
		if i < 5 { // each changes the accepted state: the next must find it so
			for w.accepted() == accepted {
				yield()
			}
		}
	}
	yieldLong()
	for i, ask := range asks {
		select {
		case err := <-answers[i]:
			t.Errorf("%s: answered before the barrier: %v", ask.name, err)
			answers[i] <- err
		default:
		}
	}
	if now := w.picture(); now != before {
		t.Errorf("what is not durable is seen:\n%s", now)
	}
	b.letGo(fail)
	for i, ask := range asks {
		err := <-answers[i]
		if fail != nil {
			if !errors.Is(err, wal.ErrUnknown) && !errors.Is(err, wal.ErrPoisoned) {
				t.Errorf("%s: the barrier failed, and the answer is %v", ask.name, err)
			}
			continue
		}
		if CodeOf(err) != ask.code || (err == nil) != (ask.code == "") {
			t.Errorf("%s: %v, want %q", ask.name, err, ask.code)
		}
	}
	if fail != nil {
		if now := w.picture(); now != before {
			t.Errorf("what may not be durable is seen:\n%s", now)
		}
	}
}

// accepted tells how far accepted changes are: the sum of their LSNs.
func (w *world) accepted() (n uint64) {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	for _, l := range w.s.acc.runs {
		n += l.lastLSN
	}
	return n
}

// TestRefusedGroup: a write that fails before its barrier takes back all that
// was accepted with it and behind it, and nothing else; then everything goes
// on as if it had never been.
func TestRefusedGroup(t *testing.T) {
	b := newBarrier()
	faulty := vfs.NewFaulty(b)
	w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
	t.Cleanup(w.close)
	w.mustOpen()
	a := w.start(StartRequest{ID: "exec_a", IdempotencyKey: "a"})
	end := w.start(StartRequest{ID: "exec_end"})
	a.mustAppend(`{"i":0}`)

	// One group is held in its barrier; behind it a second one forms, and its
	// write fails.
	b.hold()
	held := make(chan error, 1)
	go func() { _, err := a.append(`{"i":1}`); held <- err }()
	<-b.entered
	accepted := w.accepted()
	asks := []func() error{
		func() error {
			_, err := w.s.Append(ctx, a.c, a.id, rowsOf(`{"k":1}`), "k")
			return err
		},
		func() error { _, _, err := a.put("p", "x"); return err },
		func() error { _, err := end.settle(Success, "answer"); return err },
		func() error {
			_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: "exec_new", IdempotencyKey: "n"})
			return err
		},
		func() error {
			_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: "exec_a", IdempotencyKey: "a"})
			return err
		},
	}
	answers := make(chan error)
	for _, ask := range asks {
		go func() { answers <- ask() }()
		for w.accepted() == accepted {
			yield()
		}
		accepted = w.accepted()
	}
	faulty.Inject(vfs.Fault{
		Ops: vfs.OpWrite, Nth: 1, Mode: vfs.Half, Err: syscall.ENOSPC,
		Match: isGroup,
	})
	b.letGo(nil)
	if err := <-held; err != nil {
		t.Errorf("what was in the barrier: %v", err)
	}
	for range asks {
		err := <-answers
		if full, ok := errors.AsType[*wal.NoSpaceError](err); !ok || full.Mount == "" {
			t.Errorf("what was behind it: %v", err)
		}
	}
	if len(faulty.Fired()) != 1 {
		t.Fatalf("%d calls failed", len(faulty.Fired()))
	}
	check := func() {
		t.Helper()
		if got := strings.Join(w.agentRows(a.id), ""); got != `{"i":0}{"i":1}` {
			t.Errorf("the log has %s", got)
		}
		if _, ok := w.s.Lookup("exec_new"); ok || w.info(end.id).Phase.sealed() || w.info(a.id).Payloads != 0 || w.info(a.id).Revision > 3 {
			t.Error("something of what was refused is there")
		}
	}
	check()
	for i, ask := range asks { // again, and all of it succeeds for the first time
		if err := ask(); err != nil {
			t.Errorf("ask %d again: %v", i, err)
		}
	}
	if got := w.info(a.id); got.Revision != 2 || got.Payloads != 1 || w.rows(a.id)[3].raw != `{"seq":4,"k":1}` {
		t.Errorf("then the run is %+v", got)
	}
	before := w.picture()
	w.close()
	w.mustOpen()
	w.reopen()
	w.checkJournal()
	if w.info(end.id).Phase != Terminal || len(w.agentRows(a.id)) != 3 {
		t.Errorf("a restart made of\n%s\nthis:\n%s", before, w.picture())
	}
}
