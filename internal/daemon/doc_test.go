package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"durafs/internal/daemon"
	"durafs/internal/need"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// TestAPIDocument runs the session that docs/api.md shows.
func TestAPIDocument(t *testing.T) {
	need.Program(t, "curl", "curl")
	need.Program(t, "jq", "jq")
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatal("docs/api.md shows no command")
	}
	d, _ := serve(t, daemon.Config{Store: filepath.Join(shortDir(t), "s")})
	for _, b := range blocks {
		cmd := exec.Command("sh", "-eu", "-c", b[1])
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "DURAFS_SOCKET="+d.Config().Socket)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		for _, want := range []string{`"acked":2`, "terminal\n", `"text":"three"`, "one two three\n", "10\n"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the session did not show %q:\n%s", want, out)
			}
		}
	}
}

// TestReadmeSession runs the first session of the README, in a directory of
// its own.
func TestReadmeSession(t *testing.T) {
	need.FUSE(t)
	need.Program(t, "b3sum", "b3sum")
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, session, found := strings.Cut(string(text), "## A first session")
	session, _, _ = strings.Cut(session, "\n## ")
	blocks := shellBlock.FindAllStringSubmatch(session, -1)
	if !found || len(blocks) != 2 {
		t.Fatalf("the README's session has %d blocks of commands", len(blocks))
	}
	dir, program := shortDir(t), buildProgram(t)
	script := strings.NewReplacer(
		"make build && ", "",
		"$PWD/bin", filepath.Dir(program),
		"/tmp/", dir+"/",
	).Replace(blocks[0][1] + blocks[1][1])
	out := runSession(t, script)
	for _, want := range []string{"hello\n", "world\n", `"phase": "terminal"`, `"type":"terminal"`, "runs/"} {
		if !strings.Contains(out, want) {
			t.Errorf("the session did not show %q:\n%s", want, out)
		}
	}
}

// runSession runs a script and, should it fail, ends what it left running.
func runSession(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second // a daemon that was left running holds the pipe
	out, err := cmd.CombinedOutput()
	if err != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		t.Fatalf("%v:\n%s", err, out)
	}
	return string(out)
}
