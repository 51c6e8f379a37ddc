package child

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"durafs/internal/need"
)

// A terminal's Ctrl-C reaches the command once, from the kernel, and a signal
// that someone sends to the wrapper alone is passed on there too.
func TestTerminal(t *testing.T) {
	if script := os.Getenv("CHILD_TEST_TTY"); script != "" {
		stdout, _, exit := wrap(script)
		os.Stderr.WriteString(stdout)
		os.Exit(exit.Status())
	}
	master, slave := openTerminal(t)
	stop := filepath.Join(t.TempDir(), "stop")
	wrapper := exec.Command(os.Args[0], "-test.run=^TestTerminal$")
	wrapper.Env = append(os.Environ(), "STOP="+stop, `CHILD_TEST_TTY=
		ints=0 terms=0
		trap 'ints=$((ints+1)); echo int $ints >&2' INT
		trap 'terms=$((terms+1)); echo term $terms >&2' TERM
		echo ready >&2
		while [ ! -e "$STOP" ]; do sleep 0.02; done
		echo end $ints $terms >&2`)
	wrapper.Stdin, wrapper.Stdout = slave, slave
	wrapper.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	stderr, err := wrapper.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := wrapper.Start(); err != nil {
		t.Fatal(err)
	}
	defer wrapper.Process.Kill()
	hung := time.AfterFunc(30*time.Second, func() { wrapper.Process.Kill() })
	defer hung.Stop()
	lines := bufio.NewScanner(stderr)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	expect("ready")
	if _, err := master.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	expect("int 1")
	wrapper.Process.Signal(syscall.SIGTERM)
	expect("term 1")
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect("end 1 1")
	if err := wrapper.Wait(); err != nil {
		t.Error(err)
	}
}

// openTerminal makes a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		need.Missing(t, "pseudo-terminals: "+err.Error())
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		need.Missing(t, "pseudo-terminals: "+strings.TrimSpace(err.Error()))
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}
