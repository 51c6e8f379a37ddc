package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"durafs/cas"
	"durafs/runs"
)

// swept sweeps all of s.
func swept(t *testing.T, s *Store) cas.Swept {
	t.Helper()
	done, err := s.Sweep(t.Context(), SweepOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func startFor(t *testing.T, s *Store, id string) runs.Caller {
	t.Helper()
	st, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: id, Lease: -1})
	if err != nil {
		t.Fatal(err)
	}
	return runs.Caller{Writer: st.Writer}
}

func openPayload(s *Store, id, name string) (runs.PayloadReader, error) {
	ref, err := s.Runs().Look(runs.Caller{Owner: true}, id)
	if err != nil {
		return nil, err
	}
	return s.Runs().OpenPayload(ref, name)
}

// TestSweepOrphans: what came of requests that were cut is given back, before a
// crash and after one; what runs refer to is there, byte for byte, by every way
// that leads to it.
func TestSweepOrphans(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	agent := startFor(t, s, "exec_a")
	put := func(name string, r io.Reader) error {
		_, _, err := s.Runs().Put(t.Context(), agent, "exec_a", name, runs.SourceNamed, "", r)
		return err
	}
	want := map[string][]byte{}
	for i := range 6 {
		name, data := fmt.Sprint("p", i), randomBytes(uint64(i), 200_000+i*1000)
		want[name] = data
		if err := put(name, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if err := put("cut", io.MultiReader(bytes.NewReader(randomBytes(uint64(100+i), 3<<20)), failing{})); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
	}
	large := `{"large":"` + strings.Repeat("x", runs.RowTextBytesMax+1000) + `"}`
	if _, err := s.Runs().Append(t.Context(), agent, "exec_a", []runs.Row{{JSON: []byte(large)}}, ""); err != nil {
		t.Fatal(err)
	}
	check := func(what string, s *Store) {
		t.Helper()
		for name, data := range want {
			r, err := openPayload(s, "exec_a", name)
			if err != nil {
				t.Errorf("%s: %s: %v", what, name, err)
				continue
			}
			got, err := io.ReadAll(io.NewSectionReader(r, 0, int64(len(data))+1))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %s: %d bytes, %v", what, name, len(got), err)
			}
		}
	}
	killed := copied(t, dir) // as it is when the daemon is killed here

	before := leaks(t, dir)
	done := swept(t, s)
	if v := leaks(t, dir); before.UnreferencedBytes < 1<<20 || v.UnreferencedRecords != 0 || v.UnreferencedBytes != 0 || done.PacksFreed == 0 {
		t.Errorf("%+v, then %+v, then %+v", before, done, v)
	}
	check("swept", s)
	if again := swept(t, s); again.PacksFreed != 0 || again.RecordsMoved != 0 {
		t.Errorf("again: %+v", again)
	}
	after := copied(t, dir)
	for what, dir := range map[string]string{"killed before": killed, "killed after": after} {
		k := openFor(t, nil, dir)
		due := k.SweepDue()
		swept(t, k)
		if want := what == "killed before"; due != want || k.SweepDue() {
			t.Errorf("%s: a sweep is due: %v, then %v", what, due, k.SweepDue())
		}
		check(what, k)
		if v := leaks(t, dir); v.UnreferencedBytes != 0 {
			t.Errorf("%s: %+v", what, v)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := leaks(t, dir); v.UnreferencedBytes != 0 {
			t.Errorf("%s, closed: %+v", what, v)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), SweepOptions{}); err == nil {
		t.Error("a closed store was swept")
	}
}

// TestSweepBesideRuns: agents put, log large rows, commit images and settle while
// all is swept again and again, and somebody verifies; nothing acknowledged is
// missing, verify finds no damage at any time, and in the end nothing is left.
func TestSweepBesideRuns(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	defer s.Close(context.Background())
	const agents, each = 4, 12
	var wg sync.WaitGroup
	over := make(chan struct{})
	shared := func(i int) []byte { return randomBytes(uint64(i%5), 70_000+i%5*9000) }
	for a := range agents {
		id := fmt.Sprint("exec_", a)
		agent := startFor(t, s, id)
		wg.Go(func() {
			for i := range each {
				if _, _, err := s.Runs().Put(t.Context(), agent, id, fmt.Sprint("p", i), runs.SourceNamed, "", bytes.NewReader(shared(a+i))); err != nil {
					t.Error(err)
				}
				_, _, err := s.Runs().Put(t.Context(), agent, id, "cut", runs.SourceNamed, "", io.MultiReader(bytes.NewReader(shared(a+i+1)), failing{}))
				if !errors.Is(err, errCut) {
					t.Error(err)
				}
				row := fmt.Sprintf(`{"i":%d,"x":"%s"}`, i, strings.Repeat("y", runs.RowTextBytesMax+i))
				if _, err := s.Runs().Append(t.Context(), agent, id, []runs.Row{{JSON: []byte(row)}}, ""); err != nil {
					t.Error(err)
				}
			}
			text := shared(a)
			if _, err := s.Runs().Settle(t.Context(), agent, id, runs.SettleRequest{Status: runs.Success, Payload: bytes.NewReader(text)}); err != nil {
				t.Error(err)
			}
		})
	}
	var back sync.WaitGroup
	back.Go(func() {
		for {
			if _, err := s.Sweep(t.Context(), SweepOptions{All: true}); err != nil {
				t.Error(err)
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	back.Go(func() {
		for {
			leaks(t, dir)
			select {
			case <-over:
				return
			default:
			}
		}
	})
	wg.Wait()
	close(over)
	back.Wait()
	swept(t, s)
	if v := leaks(t, dir); v.UnreferencedBytes != 0 {
		t.Errorf("%+v", v)
	}
	for a := range agents {
		for i := range each {
			r, err := openPayload(s, fmt.Sprint("exec_", a), fmt.Sprint("p", i))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(io.NewSectionReader(r, 0, 1<<20))
			if err != nil || !bytes.Equal(got, shared(a+i)) {
				t.Errorf("%d, %d: %d bytes, %v", a, i, len(got), err)
			}
		}
	}
}

// TestNotSwept: a store that has lost a part of its log keeps all that there is.
func TestNotSwept(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	agent := startFor(t, s, "exec_a")
	for i := range 3 {
		if _, _, err := s.Runs().Put(t.Context(), agent, "exec_a", fmt.Sprint("p", i), runs.SourceNamed, "", bytes.NewReader(randomBytes(uint64(i), 100_000))); err != nil {
			t.Fatal(err)
		}
	}
	flip := func() {
		t.Helper()
		segs, err := filepath.Glob(filepath.Join(dir, walName, "0*.seg"))
		if err != nil || len(segs) == 0 {
			t.Fatal(segs, err)
		}
		f, err := os.OpenFile(segs[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var b [1]byte
		if _, err := f.ReadAt(b[:], 4096+100); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b[:], 4096+100); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	packs := func() []string {
		all, _ := filepath.Glob(filepath.Join(dir, casName, "*.pack"))
		return slices.DeleteFunc(all, func(n string) bool { i, err := os.Stat(n); return err != nil || i.Size() <= 4096 })
	}
	if _, err := s.Sweep(t.Context(), SweepOptions{All: true}); !errors.Is(err, cas.ErrUnsure) {
		t.Errorf("with damage in the log: %v", err)
	}
	if len(packs()) != 1 {
		t.Error(packs())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = openFor(t, nil, dir)
	defer s.Close(context.Background())
	if _, err := s.Sweep(t.Context(), SweepOptions{All: true}); err == nil {
		t.Error("opened with damage, it was swept")
	}
}

// TestSweepDeleted: what an owner has deleted is swept, but for what others share;
// who had it open is told so, and the run is not damaged; verify counts it as
// room before, and as nothing after.
func TestSweepDeleted(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	defer s.Close(context.Background())
	owner := runs.Caller{Owner: true}
	agents := map[string]runs.Caller{"exec_a": startFor(t, s, "exec_a"), "exec_b": startFor(t, s, "exec_b")}
	put := func(id, name string, seed uint64, n int) {
		t.Helper()
		if _, _, err := s.Runs().Put(t.Context(), agents[id], id, name, runs.SourceNamed, "", bytes.NewReader(randomBytes(seed, n))); err != nil {
			t.Fatal(err)
		}
	}
	put("exec_a", "own", 1, 300_000)
	put("exec_a", "shared", 2, 200_000)
	put("exec_b", "shared", 2, 200_000)
	put("exec_a", "small", 3, 900) // inline
	put("exec_b", "kept", 4, 250_000)
	if _, err := s.Runs().Settle(t.Context(), agents["exec_a"], "exec_a", runs.SettleRequest{Status: runs.Success, PayloadName: "own"}); err != nil {
		t.Fatal(err)
	}
	reader, err := openPayload(s, "exec_a", "shared")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range [][2]string{{"exec_a", "own"}, {"exec_a", "shared"}, {"exec_a", "small"}, {"exec_b", "shared"}} {
		if _, err := s.Runs().DeletePayload(t.Context(), owner, p[0], p[1]); err != nil {
			t.Fatal(err)
		}
	}
	if v := leaks(t, dir); v.UnreferencedBytes < 200_000 || v.UnreferencedBytes > 202_000 {
		t.Errorf("of the two that share bytes both are deleted, the other is the run's answer too: %+v", v)
	}
	if done := swept(t, s); done.PacksFreed != 1 {
		t.Errorf("%+v", done)
	}
	if v := leaks(t, dir); v.UnreferencedBytes != 0 {
		t.Errorf("after: %+v", v)
	}
	if _, err := reader.ReadAt(make([]byte, 100_000), 70_000); runs.CodeOf(err) != runs.PayloadDeleted {
		t.Errorf("a reader that had it open: %v", err)
	}
	for what, seed := range map[string]uint64{runs.TerminalName: 1, "kept": 4} {
		id := map[string]string{runs.TerminalName: "exec_a", "kept": "exec_b"}[what]
		r, err := openPayload(s, id, what)
		if err != nil {
			t.Fatal(what, err)
		}
		want := randomBytes(seed, int(r.Size()))
		if got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size())); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
	}
	for id := range agents {
		ref, err := s.Runs().Look(owner, id)
		if err != nil {
			t.Fatal(err)
		}
		if info, _ := s.Runs().Info(ref); info.Damaged {
			t.Errorf("%s is taken for damaged", id)
		}
	}
	k := openFor(t, nil, copied(t, dir))
	defer k.Close(context.Background())
	if r, err := openPayload(k, "exec_b", "kept"); err != nil || r.Size() != 250_000 {
		t.Error(err)
	}
}
