package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/scripts run this program, as a user would: the real
// daemon, its socket, and the mount.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"durafs": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   filepath.Join("..", "..", "testdata", "scripts"),
		Setup: setupScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":   cmdDaemon,
			"setenv":   cmdSetenv,
			"waitfor":  cmdWaitFor,
			"untilout": cmdUntilOut,
			"rows":     cmdRows,
			"signal":   cmdSignal,
			"exitis":   cmdExitIs,
		},
		Condition:           canDo,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// setupScript gives each script an environment of its own: nothing of the
// user's is found or touched.
func setupScript(env *testscript.Env) error {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"DURAFS_SOCKET":   filepath.Join(env.WorkDir, "s", "control.sock"),
		"XDG_RUNTIME_DIR": filepath.Join(env.WorkDir, "run"),
		"XDG_STATE_HOME":  filepath.Join(env.WorkDir, "state"),
		"HOME":            env.WorkDir,
		"PROJECT":         root,
		"DURAFS_WRITER":   "",
		"DURAFS_RUN_ID":   "",
		"DURAFS_RESUME":   "",
		"GORACE":          "atexit_sleep_ms=0", // a second for each command else
	} {
		env.Setenv(name, value)
	}
	env.Setenv("PATH", env.Getenv("PATH")+string(filepath.ListSeparator)+"/usr/sbin:/sbin")
	p := &daemonProcess{}
	env.Values[daemonKey{}] = p
	env.Defer(func() { p.cleanUp(env.WorkDir) })
	return nil
}

// mountsIn lists what is mounted in a directory, the deepest last.
func mountsIn(dir string) []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var points []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	return points
}
