package blockdev_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

var (
	budget = flag.Duration("budget", 0, "go on with further lives and rounds for so long")
	seed   = flag.Uint64("seed", 1, "of what is drawn")
)

// The environment tells a process of this program what it is.
const (
	// insideEnv is set in the process that runs the tests: it has a mount table
	// of its own, so that nothing stays mounted, however it ends.
	insideEnv = "DURAFS_BLOCKDEV_INSIDE"
	// workerEnv is set in one that uses a store; see worker.
	workerEnv = "DURAFS_BLOCKDEV_WORKER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(workerEnv) != "":
		if err := worker(os.Getenv(workerEnv)); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	case os.Getenv(insideEnv) == "" && os.Geteuid() == 0:
		os.Exit(inside())
	}
	flag.Parse()
	os.Exit(m.Run())
}

// inside runs this program again, with a mount table of its own, and is its exit
// code.
func inside() int {
	runtime.LockOSThread() // with which the signal of its death comes
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// until is when a test that has done what it always does is to end.
func until(began time.Time) time.Time { return began.Add(*budget) }
