package child

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// run starts a shell script and returns what it printed and how it ended.
func run(t *testing.T, script string) (stdout, stderr string, exit Exit) {
	t.Helper()
	c, err := Start([]string{"sh", "-c", script}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { Copy(&out, c.Stdout, io.Discard) })
	wg.Go(func() { Copy(&errs, c.Stderr, io.Discard) })
	wg.Wait()
	exit, err = c.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), exit
}

func TestRun(t *testing.T) {
	stdout, stderr, exit := run(t, `echo out; echo err >&2; exit 3`)
	if stdout != "out\n" || stderr != "err\n" || exit.Status() != 3 {
		t.Errorf("%q, %q, %+v", stdout, stderr, exit)
	}
}

func TestSignalled(t *testing.T) {
	_, _, exit := run(t, `kill -TERM $$`)
	if exit.Signal != syscall.SIGTERM || exit.Status() != 143 {
		t.Errorf("%+v", exit)
	}
}

// What a shell would run is run: a script without "#!", and what is found in
// the working directory because $PATH names it.
func TestFoundAsByAShell(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", ".:"+os.Getenv("PATH"))
	if err := os.WriteFile("plain-script", []byte("echo got $1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"./plain-script", "plain-script"} {
		if _, err := Look(name); err != nil {
			t.Errorf("Look(%s): %v", name, err)
		}
		c, err := Start([]string{name, "it"}, os.Environ())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var out bytes.Buffer
		go Copy(io.Discard, c.Stderr, io.Discard)
		if err := Copy(&out, c.Stdout, io.Discard); err != nil {
			t.Error(err)
		}
		if exit, err := c.Wait(); err != nil || exit.Status() != 0 || out.String() != "got it\n" {
			t.Errorf("%s: %+v, %v, %q", name, exit, err, out.String())
		}
	}
}

func TestStartExitCode(t *testing.T) {
	file := t.TempDir() + "/plain"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"/no/such/command": ExitNotFound, "no-such-command-anywhere": ExitNotFound, file: ExitNotExecutable,
	} {
		_, err := Start([]string{name}, nil)
		if err == nil {
			t.Fatalf("%s was started", name)
		}
		if got := StartExitCode(err); got != want {
			t.Errorf("%s: %d, want %d (%v)", name, got, want, err)
		}
	}
}

// When nobody reads our output any more, a command that prints for ever ends.
func TestReaderGoesAway(t *testing.T) {
	c, err := Start([]string{"sh", "-c", "exec yes"}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	r.Close()
	go Copy(io.Discard, c.Stderr, io.Discard)
	if err := Copy(w, c.Stdout, io.Discard); err != nil {
		t.Error(err)
	}
	exit, err := c.Wait()
	if err != nil || exit.Signal != syscall.SIGPIPE {
		t.Errorf("%+v, %v", exit, err)
	}
}

// Whoever shares our output may make it non-blocking: the command must not
// notice, and nothing of what it printed be lost.
func TestOutputMadeNonBlocking(t *testing.T) {
	const bytesWanted = 1 << 20
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	defer r.Close()
	if err := syscall.SetNonblock(fds[1], true); err != nil { // behind w's back
		t.Fatal(err)
	}
	c, err := Start([]string{"sh", "-c", "head -c 1048576 /dev/zero"}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	go Copy(io.Discard, c.Stderr, io.Discard)
	copied := make(chan error, 1)
	go func() { copied <- Copy(w, c.Stdout, io.Discard); w.Close() }()
	for inPipe := 0; inPipe < copyBytes && len(copied) == 0; { // nobody reads until it is full
		if inPipe, err = unix.IoctlGetInt(fds[0], unix.TIOCINQ); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if n, err := io.Copy(io.Discard, r); n != bytesWanted || err != nil {
		t.Errorf("%d bytes of %d passed on, %v", n, bytesWanted, err)
	}
	if err := <-copied; err != nil {
		t.Error(err)
	}
	if exit, err := c.Wait(); err != nil || exit.Status() != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}

// A full disk behind our output is told: the command takes us for a pipe.
func TestOutputCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	c, err := Start([]string{"sh", "-c", "echo hello"}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	go Copy(io.Discard, c.Stderr, io.Discard)
	if err := Copy(full, c.Stdout, io.Discard); !errors.Is(err, ErrUnwritten) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Copy: %v", err)
	}
	if _, err := c.Wait(); err != nil {
		t.Error(err)
	}
}

func TestOutputHeldByOthers(t *testing.T) {
	release, hold, err := os.Pipe() // ends the background process with the test
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	stdin := os.Stdin
	os.Stdin = release
	defer func() { os.Stdin = stdin }()
	c, err := Start([]string{"sh", "-c", "exec 3<&0; cat <&3 & echo started"}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	release.Close()
	var out bytes.Buffer
	done := make(chan error, 2)
	go func() { done <- Copy(&out, c.Stdout, io.Discard) }()
	go func() { done <- Copy(io.Discard, c.Stderr, io.Discard) }()
	if _, err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	c.StopReading(50 * time.Millisecond)
	for range 2 {
		if err := <-done; !errors.Is(err, ErrHeld) {
			t.Errorf("Copy: %v, want ErrHeld", err)
		}
	}
	if out.String() != "started\n" {
		t.Errorf("out %q", out.String())
	}
}

// What the command printed before it ended is read to its end, however slowly
// it is taken from us.
func TestSlowReaderLosesNothing(t *testing.T) {
	c, err := Start([]string{"sh", "-c", "head -c 150000 /dev/zero"}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	done := make(chan error, 2)
	go func() { done <- Copy(w, c.Stdout, io.Discard); w.Close() }()
	go func() { done <- Copy(io.Discard, c.Stderr, io.Discard) }()
	if _, err := io.CopyN(io.Discard, r, 100000); err != nil { // lets the command end
		t.Fatal(err)
	}
	if _, err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	c.StopReading(-time.Second) // long over
	if n, err := io.Copy(io.Discard, r); n != 50000 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The signals of a process that wraps a command reach the command. The wrapper
// is this test's own binary, in a session of its own: without a terminal.
func TestSignalsArePassedOn(t *testing.T) {
	if script := os.Getenv("CHILD_TEST_SCRIPT"); script != "" {
		stdout, _, exit := wrap(script)
		os.Stdout.WriteString(stdout)
		os.Exit(exit.Status())
	}
	// Under nohup, or in the background of a script, some are ignored, and a
	// shell cannot trap what it was started with as ignored. What is caught
	// here has its default there.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(caught)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		wrapper := exec.Command(os.Args[0], "-test.run=^TestSignalsArePassedOn$")
		wrapper.Env = append(os.Environ(), "CHILD_TEST_SCRIPT=trap 'echo got it; exit 7' INT TERM HUP QUIT USR1; echo ready >&2; while :; do read x; done")
		wrapper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		stdin, err := wrapper.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stderr, err := wrapper.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		wrapper.Stdout = &out
		if err := wrapper.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stderr, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		wrapper.Process.Signal(sig)
		stdin.Write([]byte("\n")) // lets read return in shells that wait for it
		err = wrapper.Wait()
		if wrapper.ProcessState.ExitCode() != 7 || out.String() != "got it\n" {
			t.Errorf("%v: %v, %q", sig, err, out.String())
		}
	}
}

// wrap is run for a process whose output is ours.
func wrap(script string) (string, string, Exit) {
	c, err := Start([]string{"sh", "-c", script}, os.Environ())
	if err != nil {
		panic(err)
	}
	var out bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { Copy(&out, c.Stdout, io.Discard) })
	wg.Go(func() { Copy(os.Stderr, c.Stderr, io.Discard) })
	wg.Wait()
	exit, err := c.Wait()
	if err != nil {
		panic(err)
	}
	return out.String(), "", exit
}
