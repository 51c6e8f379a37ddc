package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/projection"
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

// TestPackThatIsGone: a pack that is not there is damage where something refers
// to it, and dangling, whether it was sealed or not; where nothing does it may
// have been dropped beside us, and is none.
func TestPackThatIsGone(t *testing.T) {
	for refers, whole := range map[bool]int{false: 0, true: 300_000} {
		dir := memoryDir(t)
		s := openFor(t, nil, dir)
		st, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: "exec_a", Lease: -1})
		if err != nil {
			t.Fatal(err)
		}
		r := io.MultiReader(bytes.NewReader(randomBytes(1, cutBytes)), failing{})
		if refers {
			r = bytes.NewReader(randomBytes(2, whole))
		}
		s.Runs().Put(t.Context(), runs.Caller{Writer: st.Writer}, "exec_a", "it", runs.SourceNamed, "", r)
		killed := copied(t, dir)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(killed, casName, "active-0000000001.pack")); err != nil {
			t.Fatal(err)
		}
		var found []Finding
		v, err := Verify(t.Context(), killed, VerifyOptions{}, func(f Finding) { found = append(found, f) })
		if want := map[bool]int{true: 1}[refers]; err != nil || v.Dangling != want || len(found) != 2*want {
			t.Errorf("something refers to it: %v; %+v, %v, %v", refers, v, found, err)
		}
		if refers && (found[1].Run != "exec_a" || !strings.Contains(found[1].Reason, "payload it")) {
			t.Errorf("named %+v", found)
		}
	}
}

// copied is a copy of an open store that nobody writes to. The store makes its
// next segment and pack in the background, and they get other names then.
func copied(t *testing.T, dir string) string {
	t.Helper()
	for range 100 {
		to := filepath.Join(memoryDir(t), "copy")
		err := os.CopyFS(to, os.DirFS(dir))
		if err == nil {
			return to
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	t.Fatalf("%s does not stand still", dir)
	return ""
}

// TestSecondArtifactFails: the disk is full at each write of an outcome's two
// images in turn. The outcome is committed, with both or with the sentinel;
// nothing dangles, and what was staged is gone after a kill, or
// counted where its pack was ended for want of room, and so sealed as it was.
func TestSecondArtifactFails(t *testing.T) {
	images := make([]string, 2)
	for i := range images {
		b := randomBytes(uint64(i), 300_000)
		copy(b, "\xff\xd8\xff")
		images[i] = `{"kind":"image","media_type":"image/jpeg","data":"` + base64.StdEncoding.EncodeToString(b) + `"}`
	}
	candidate := []byte(`{"v":1,"status":"ok","parts":[` + images[0] + "," + images[1] + "]}")
	sentinels, staged, left := 0, int64(0), int64(0)
	for nth := 1; ; nth++ {
		dir := memoryDir(t)
		f := vfs.NewFaulty(vfs.OS)
		s := openFor(t, f, dir)
		st, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: "exec_a", Lease: -1})
		if err != nil {
			t.Fatal(err)
		}
		agent := runs.Caller{Writer: st.Writer}
		if _, err := s.Runs().Claim(t.Context(), agent, "exec_a", runs.ClaimRequest{CallID: "c", Name: "shot", Safety: []byte(`"mutating"`)}); err != nil {
			t.Fatal(err)
		}
		f.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpDatasync, Nth: nth, Sticky: true, Err: syscall.ENOSPC, Match: func(c vfs.Call) bool {
			return strings.Contains(c.Name, casName+"/") && strings.HasSuffix(c.Name, ".pack")
		}})
		got, err := s.Runs().Outcome(t.Context(), agent, "exec_a", runs.OutcomeRequest{
			Call: 1, Outcome: []byte(`{}`), Projection: func(context.Context) ([]byte, error) { return candidate, nil },
		})
		if err != nil {
			t.Fatalf("write %d: %v", nth, err)
		}
		fired := len(f.Fired())
		f.Clear()
		before := leaks(t, dir)
		staged += before.UnreferencedBytes
		shown := string(got.Projection) != projection.Sentinel
		if !shown {
			sentinels++
		} else if before.UnreferencedRecords != 0 {
			t.Errorf("write %d: both are shown, and %+v", nth, before)
		}
		killed := copied(t, dir)
		k := openFor(t, nil, killed)
		if _, err := k.Runs().Claim(t.Context(), agent, "exec_a", runs.ClaimRequest{CallID: "c", Name: "shot", Safety: []byte(`"mutating"`)}); err == nil {
			t.Errorf("write %d: the tool may run again", nth)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := leaks(t, killed)
		if left += after.UnreferencedBytes; after.UnreferencedBytes > before.UnreferencedBytes {
			t.Errorf("write %d: after a kill and a boot %+v, before %+v", nth, after, before)
		}
		s.Close(t.Context())
		if fired == 0 {
			t.Logf("%d writes, %d sentinels, %d bytes were staged for nothing, %d are left", nth-1, sentinels, staged, left)
			if sentinels == 0 || left >= staged {
				t.Error("no failure was met, or nothing of what was staged has gone")
			}
			return
		}
	}
}
