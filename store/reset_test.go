package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/runs"
	"durafs/wal"
)

var resetOwner = runs.Caller{Owner: true}

// fillForReset gives a store runs, rows, payloads and settings, and returns a
// writer token.
func fillForReset(t *testing.T, s *Store) (id, writer string) {
	t.Helper()
	ctx := t.Context()
	st, err := s.Runs().Start(ctx, resetOwner, runs.StartRequest{Labels: runs.Labels{"thread": "t"}})
	if err != nil {
		t.Fatal(err)
	}
	c := runs.Caller{Writer: st.Writer}
	_, errRow := s.Runs().Append(ctx, c, st.Record.ID, []runs.Row{{JSON: []byte(`{"a":1}`)}}, "")
	_, _, errPut := s.Runs().Put(ctx, c, st.Record.ID, "p", runs.SourceNamed, "", strings.NewReader(strings.Repeat("payload ", 10_000)))
	errScope := s.Runs().GrantScope(ctx, resetOwner, "s", true)
	if err := errors.Join(errRow, errPut, errScope); err != nil {
		t.Fatal(err)
	}
	return st.Record.ID, st.Writer
}

func mustVerify(t *testing.T, dir string) {
	t.Helper()
	if _, err := Verify(t.Context(), dir, VerifyOptions{Deep: true}, func(f Finding) { t.Errorf("verify: %s", f) }); err != nil {
		t.Errorf("verify: %v", err)
	}
}

// TestReset: the next store is empty and another one, its numbers go on behind
// the former's, and it lives on like any other.
func TestReset(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	s, err := Open(t.Context(), dir, Options{UnsafeFilesystem: true})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		id, writer := fillForReset(t, s)
		ref, _ := s.Runs().Lookup(id)
		former, boot, lsn := s.ID(), s.Runs().BootID(), s.Log().Durable()
		key := string(s.config.Key)
		if err := os.WriteFile(filepath.Join(dir, lostName, "evidence"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		next, err := s.Reset(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s = next
		if s.ID() == former || s.Runs().BootID() == boot || string(s.config.Key) == key {
			t.Errorf("round %d: id, boot or key are the former store's", round)
		}
		if got := s.Log().Durable(); got <= lsn || got > lsn+2 {
			t.Errorf("round %d: the log goes on behind %d, and was at %d", round, got, lsn)
		}
		page, err := s.Runs().List(resetOwner, runs.ListQuery{})
		scopes, errScopes := s.Runs().Scopes(resetOwner)
		threads, _, errThreads := s.Runs().Threads(resetOwner, "", 10)
		if err := errors.Join(err, errScopes, errThreads); err != nil || len(page.Runs)+len(scopes)+len(threads) > 0 || len(s.Runs().Counts()) > 0 {
			t.Errorf("round %d: there are %d runs, %d scopes, %d threads, %v", round, len(page.Runs), len(scopes), len(threads), err)
		}
		if names, _ := os.ReadDir(filepath.Join(dir, lostName)); len(names) > 0 {
			t.Errorf("round %d: lost/ has %v", round, names)
		}
		_, err = s.Runs().Append(t.Context(), runs.Caller{Writer: writer}, id, []runs.Row{{JSON: []byte(`{}`)}}, "")
		if runs.CodeOf(err) != runs.UnknownRun {
			t.Errorf("round %d: a write to a former run: %v", round, err)
		}
		// The id is free; the token of then is no token of it.
		st, err := s.Runs().Start(t.Context(), resetOwner, runs.StartRequest{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Runs().Append(t.Context(), runs.Caller{Writer: writer}, id, []runs.Row{{JSON: []byte(`{}`)}}, "")
		if runs.CodeOf(err) != runs.WrongToken {
			t.Errorf("round %d: the former token is answered with %v", round, err)
		}
		if again, _ := s.Runs().Lookup(st.Record.ID); again <= ref {
			t.Errorf("round %d: run number %d after %d", round, again, ref)
		}
		mustVerify(t, dir)
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		mustVerify(t, dir)
		if s, err = Open(t.Context(), dir, Options{UnsafeFilesystem: true}); err != nil {
			t.Fatal(err)
		}
		if info, ok := s.Runs().Info(s.mustLookup(t, id)); !ok || info.Phase != runs.PausedInterruption || len(s.Recovery().Notes) > 0 {
			t.Errorf("round %d: after a restart %+v, %+v", round, info, s.Recovery())
		}
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func (s *Store) mustLookup(t *testing.T, id string) runs.Ref {
	t.Helper()
	ref, ok := s.Runs().Lookup(id)
	if !ok {
		t.Fatalf("there is no run %s", id)
	}
	return ref
}

// TestResetIsOneStep lets calls of a reset fail, done or not: what is there
// then, and what the next open finds, is the former store with all it had or an
// empty one, and an error says that it may be either. Package bench/crash does
// it with every call, and a power cut behind it.
func TestResetIsOneStep(t *testing.T) {
	every, at := 13, 0
	if testing.Short() {
		every = 39
	}
	for _, mode := range vfs.Modes {
		for k := 1 + at%every; ; k += every {
			if at++; !resetWithFault(t, vfs.Fault{Ops: vfs.OpAll, Nth: k, Mode: mode, Err: syscall.EIO}) {
				if k < 40 {
					t.Errorf("only %d calls", k)
				}
				break
			}
		}
	}
	t.Logf("%d resets", at)
}

// resetWithFault reports whether the fault came to pass.
func resetWithFault(t *testing.T, f vfs.Fault) (fired bool) {
	t.Helper()
	dir := filepath.Join(memoryDir(t), "s")
	faulty := vfs.NewFaulty(vfs.OS)
	opt := Options{UnsafeFilesystem: true, FS: faulty, BallastBytes: -1, SegmentBytesMax: 64 << 10, PackBytesMax: 1 << 20}
	s, err := Open(t.Context(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := fillForReset(t, s)
	former := s.ID()
	faulty.Inject(f)
	next, err := s.Reset(t.Context())
	fired = len(faulty.Fired()) > 0
	faulty.Clear()
	is := func(s *Store, when string) {
		t.Helper()
		_, there := s.Runs().Lookup(id)
		if old := s.ID() == former; old != there || !old && len(s.Runs().Counts()) > 0 {
			t.Errorf("%+v %s: the former store %v, its run there %v, %v", f, when, old, there, s.Runs().Counts())
		}
	}
	if err == nil && (next == nil || next.ID() == former) {
		t.Errorf("%+v: no error, and no other store", f)
	}
	if next != nil {
		is(next, "at once")
		id := next.ID()
		next.Close(context.Background())
		defer func() {
			if again, err := Open(t.Context(), dir, opt); err == nil {
				if again.ID() != id {
					t.Errorf("%+v: the store has become another", f)
				}
				again.Close(context.Background())
			}
		}()
	}
	again, err := Open(t.Context(), dir, opt)
	if err != nil {
		t.Errorf("%+v: the next open: %v", f, err)
		return fired
	}
	is(again, "after a restart")
	again.Close(context.Background())
	mustVerify(t, dir)
	return fired
}

// TestResetOfAStoreToRead: a store that can only be read is left alone.
func TestResetOfAStoreToRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	s, err := Open(t.Context(), dir, Options{UnsafeFilesystem: true})
	if err != nil {
		t.Fatal(err)
	}
	fillForReset(t, s)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"MANIFEST-A", "MANIFEST-B"} {
		if err := os.Remove(filepath.Join(dir, walName, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	s, err = Open(t.Context(), dir, Options{UnsafeFilesystem: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	id := s.ID()
	if next, err := s.Reset(t.Context()); !errors.Is(err, wal.ErrReadOnly) || next.ID() != id {
		t.Errorf("%v", err)
	}
}
