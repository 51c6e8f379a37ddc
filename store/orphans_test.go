package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"durafs/runs"
)

// leaks is what verify says of the store in dir.
func leaks(t *testing.T, dir string) Verified {
	t.Helper()
	v, err := Verify(context.Background(), dir, VerifyOptions{Deep: true}, func(f Finding) { t.Error(f) })
	if err != nil || v.Dangling != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	return v
}

// cutBytes come of a payload before it is cut: more than is on its way at once.
const cutBytes = 16 << 20

var errCut = errors.New("the connection was cut")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errCut }

// TestOrphans: the chunks of a payload that was cut are counted, and are no
// damage; those behind the last one that the log refers to vanish at the next
// boot after a kill, and those before it stay counted.
func TestOrphans(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	st, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: "exec_a", Lease: -1})
	if err != nil {
		t.Fatal(err)
	}
	agent := runs.Caller{Writer: st.Writer}
	put := func(name string, r io.Reader) error {
		_, _, err := s.Runs().Put(t.Context(), agent, "exec_a", name, runs.SourceNamed, "", r)
		return err
	}
	cut := func(seed uint64) {
		t.Helper()
		if err := put("cut", io.MultiReader(bytes.NewReader(randomBytes(seed, cutBytes)), failing{})); !errors.Is(err, errCut) {
			t.Fatalf("a payload that was cut: %v", err)
		}
	}
	const least = cutBytes / 2 // most of what was cut has been written
	if v := leaks(t, dir); v.UnreferencedRecords != 0 {
		t.Errorf("new: %+v", v)
	}
	cut(1)
	one := leaks(t, dir)
	if one.UnreferencedBytes < least || one.UnreferencedBytes > cutBytes+1<<16 || one.UnreferencedRecords < least>>16 {
		t.Errorf("one was cut: %+v", one)
	}
	if err := put("whole", bytes.NewReader(randomBytes(2, 300_000))); err != nil {
		t.Fatal(err)
	}
	cut(3)
	if v := leaks(t, dir); v.UnreferencedBytes < one.UnreferencedBytes+least {
		t.Errorf("two were cut: %+v, then %+v", one, v)
	}

	killed := copied(t, dir) // as it is when the daemon is killed here
	k := openFor(t, nil, killed)
	if err := k.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := leaks(t, killed); v.UnreferencedRecords != one.UnreferencedRecords || v.UnreferencedBytes != one.UnreferencedBytes {
		t.Errorf("after a kill and a boot: %+v, want what lies in the middle, %+v", v, one)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestOrphansAtTheEndVanish: of a request that was cut nothing is left after a
// kill when nothing came behind it.
func TestOrphansAtTheEndVanish(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	defer s.Close(context.Background())
	st, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: "exec_a", Lease: -1})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2) {
		s.Runs().Put(t.Context(), runs.Caller{Writer: st.Writer}, "exec_a", "cut", runs.SourceNamed, "",
			io.MultiReader(bytes.NewReader(randomBytes(seed, cutBytes)), failing{}))
	}
	if v := leaks(t, dir); v.UnreferencedRecords < 16 {
		t.Fatalf("nothing was left: %+v", v)
	}
	killed := copied(t, dir)
	k := openFor(t, nil, killed)
	if err := k.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := leaks(t, killed); v.UnreferencedRecords != 0 || v.UnreferencedBytes != 0 {
		t.Errorf("after a kill and a boot: %+v", v)
	}
}

// copied is a copy of an open store that nobody writes to.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(memoryDir(t), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}
