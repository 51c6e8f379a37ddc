package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
