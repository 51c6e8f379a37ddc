package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"durafs/internal/need"
	"durafs/runs"
)

// fullDirEnv tells a child of TestFullDisk, which has another uid, where to
// work.
const fullDirEnv = "DURAFS_TEST_FULL_DIR"

const nobody = 65534

// TestFullDisk leads a store's life on a real file system that is full to the
// last block, as root and as somebody else.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(fullDirEnv); dir != "" {
		lifeOnFullDisk(t, dir)
		return
	}
	mnt := need.Ext4(t, 64<<20)
	t.Run("root", func(t *testing.T) { lifeOnFullDisk(t, filepath.Join(mnt, "root")) })
	t.Run("nobody", func(t *testing.T) {
		// The test's own file may lie where nobody else comes.
		exe := filepath.Join(t.TempDir(), "store.test")
		b, err := os.ReadFile(os.Args[0])
		if err = errors.Join(err, os.WriteFile(exe, b, 0o755), os.Chmod(filepath.Dir(filepath.Dir(exe)), 0o755), os.Chmod(filepath.Dir(exe), 0o755)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestFullDisk$", "-test.v")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), fullDirEnv+"="+filepath.Join(mnt, "nobody"), "TMPDIR="+mnt)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFullDisk")) {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// lifeOnFullDisk: what needs space is refused as such; what runs is ended, from
// what is held back; the store opens again and again; and with space once more
// everything goes on by itself.
func lifeOnFullDisk(t *testing.T, dir string) {
	ctx := t.Context()
	opt := Options{BeatWait: time.Microsecond}
	open := func() *Store {
		t.Helper()
		s, err := Open(ctx, dir, opt)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return s
	}
	s := open()
	var agents []runs.Caller
	for i := range 5 {
		st, err := s.Runs().Start(ctx, runs.Caller{Owner: true}, runs.StartRequest{ID: fmt.Sprintf("exec_full-%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, runs.Caller{Writer: st.Writer})
	}
	// The ballast is made behind the first segment.
	begin := time.Now()
	for !s.log.Stats().Ballast {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("there is no ballast")
		}
		<-time.After(time.Millisecond)
	}
	row := runs.Row{JSON: []byte(`{"type":"t","pad":"` + strings.Repeat("x", 40<<10) + `"}`)}
	add := func() error {
		_, err := s.Runs().Append(ctx, agents[0], "exec_full-0", []runs.Row{row}, "")
		return err
	}
	filler := filepath.Join(filepath.Dir(dir), "filler-"+filepath.Base(dir))
	need.FillUp(t, filler)
	rows, err := 0, error(nil)
	for ; err == nil; rows++ {
		if rows > 10_000 {
			t.Fatal("a full disk took everything")
		}
		err = add()
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a row on a full disk: %v", err)
	}
	put := func(name string) error {
		_, _, err := s.Runs().Put(ctx, agents[0], "exec_full-0", name, runs.SourceNamed, "", bytes.NewReader(randomBytes(1, 200_000)))
		return err
	}
	if err := put("full"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a payload on a full disk: %v", err)
	}
	if _, err := s.Runs().Start(ctx, runs.Caller{Owner: true}, runs.StartRequest{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a start on a full disk: %v", err)
	}
	for i := 1; i < len(agents); i++ {
		id := fmt.Sprintf("exec_full-%d", i)
		if i > 1 { // the daemon was restarted
			if _, err := s.Runs().Attach(ctx, agents[i], id, runs.AttachRequest{}); err != nil {
				t.Fatalf("attach on a full disk: %v", err)
			}
		}
		if _, err := s.Runs().Settle(ctx, agents[i], id, runs.SettleRequest{Status: runs.Success, Summary: "ended on a full disk"}); err != nil {
			t.Fatalf("settle on a full disk, after %d opens: %v", i, err)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatalf("close on a full disk: %v", err)
		}
		s = open()
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Runs().Attach(ctx, agents[0], "exec_full-0", runs.AttachRequest{}); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; {
		if err = add(); err == nil {
			break
		}
		if !errors.Is(err, syscall.ENOSPC) || time.Since(begin) > 30*time.Second {
			t.Fatalf("with space again: %v", err)
		}
	}
	if err := put("again"); err != nil {
		t.Errorf("a payload with space again: %v", err)
	}
	if done, err := s.Sweep(ctx, SweepOptions{All: true}); err != nil {
		t.Errorf("sweep: %+v, %v", done, err)
	}
	if v := leaks(t, dir); v.UnreferencedBytes != 0 {
		t.Errorf("left: %+v", v)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(ctx, dir, VerifyOptions{Deep: true}, func(f Finding) { t.Errorf("damage: %v", f) }); err != nil {
		t.Fatal(err)
	}
}
