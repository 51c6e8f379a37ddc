package daemon_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// helpers are the programs that tests start as processes of their own, to be
// killed: this one, told by the environment which of them it is.
var helpers = map[string]func() error{}

const helperEnv = "DURAFS_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		if err := helpers[name](); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built are the programs that were built, once for all tests.
var built struct {
	sync.Mutex
	dir string
}

// build builds a program as users have it.
func build(t *testing.T, pkg string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "durafs-built")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	program := filepath.Join(built.dir, filepath.Base(pkg))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if out, err := exec.Command("go", "build", "-o", program, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

func buildProgram(t *testing.T) string {
	t.Helper()
	return build(t, "durafs/cmd/durafs")
}
