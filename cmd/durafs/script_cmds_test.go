package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// patience bounds the waits of scripts: for something that has to come, on a
// machine that may be busy.
const scriptPatience = 30 * time.Second

type daemonKey struct{}

// daemonProcess is a script's daemon, if it has one running.
type daemonProcess struct {
	cmd  *exec.Cmd
	args []string
	log  *os.File
}

// daemon start [FLAGS] serves store s in the background and waits until it is
// ready; without flags as the last time. Its output is added to daemon.log.
// daemon stop ends it with SIGTERM and checks that it exits 0 (! daemon stop:
// that it does not); daemon kill ends it with SIGKILL. daemon pause and daemon
// resume let it hang for a while.
func cmdDaemon(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value(daemonKey{}).(*daemonProcess)
	if len(args) == 0 {
		ts.Fatalf("usage: daemon start [FLAGS] | stop | kill | pause | resume")
	}
	switch args[0] {
	case "start":
		p.start(ts, args[1:])
	case "stop":
		code := p.end(ts, syscall.SIGTERM)
		if (code == 0) == neg {
			ts.Fatalf("the daemon exited with %d", code)
		}
	case "kill":
		p.end(ts, syscall.SIGKILL)
	case "pause":
		p.send(ts, syscall.SIGSTOP)
	case "resume":
		p.send(ts, syscall.SIGCONT)
	default:
		ts.Fatalf("daemon %s: unknown", args[0])
	}
}

func (p *daemonProcess) start(ts *testscript.TestScript, args []string) {
	if p.cmd != nil {
		ts.Fatalf("a daemon is running")
	}
	if len(args) > 0 {
		p.args = args
	} else if p.args == nil {
		p.args = []string{"--store", "s"}
	}
	program, err := exec.LookPath("durafs")
	ts.Check(err)
	log, err := os.OpenFile(ts.MkAbs("daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	p.cmd = exec.Command(program, append([]string{"serve"}, p.args...)...)
	p.cmd.Dir, p.cmd.Env = ts.Getenv("WORK"), scriptEnv(ts)
	p.cmd.Stdout, p.cmd.Stderr, p.log = log, log, log
	ts.Check(p.cmd.Start())
	if err := ts.Exec("durafs", "status", "--wait", scriptPatience.String()); err != nil {
		b, _ := os.ReadFile(log.Name())
		ts.Fatalf("the daemon does not come up: %v\n%s", err, b)
	}
}

func (p *daemonProcess) send(ts *testscript.TestScript, sig syscall.Signal) {
	if p.cmd == nil {
		ts.Fatalf("no daemon is running")
	}
	ts.Check(p.cmd.Process.Signal(sig))
}

// end sends the daemon a signal, waits, and returns its exit code.
func (p *daemonProcess) end(ts *testscript.TestScript, sig syscall.Signal) int {
	p.send(ts, sig)
	hung := time.AfterFunc(scriptPatience, func() { p.cmd.Process.Kill() })
	p.cmd.Wait()
	if !hung.Stop() {
		ts.Fatalf("the daemon did not end on %v", sig)
	}
	code := p.cmd.ProcessState.ExitCode()
	p.log.Close()
	p.cmd = nil
	return code
}

// cleanUp leaves no process and no mount behind, however the script ended.
func (p *daemonProcess) cleanUp(work string) {
	if p.cmd != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		p.log.Close()
	}
	points := mountsIn(work)
	for i := len(points) - 1; i >= 0; i-- {
		if unix.Unmount(points[i], unix.MNT_DETACH) != nil {
			exec.Command("fusermount3", "-uz", "--", points[i]).Run()
		}
	}
}

// scriptEnv is the environment of a script's commands.
func scriptEnv(ts *testscript.TestScript) []string {
	env := os.Environ()
	for _, name := range []string{
		"DURAFS_SOCKET", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME", "PATH", "TMPDIR", "GORACE",
	} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// canDo is the condition [can:fuse], [can:root] or [can:PROGRAM]. A script
// skips itself where it cannot; where CI is set that is a failure.
func canDo(cond string) (bool, error) {
	what, ok := strings.CutPrefix(cond, "can:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	err := missing(what)
	if err != nil && os.Getenv("CI") != "" {
		return false, err
	}
	return err == nil, nil
}

func missing(what string) error {
	switch what {
	case "fuse":
		f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	case "root":
		if os.Geteuid() != 0 {
			return errors.New("these tests do not run as root")
		}
		return nil
	}
	_, err := exec.LookPath(what)
	return err
}

// setenv NAME FILE sets a variable to a file's text, without the line break at
// its end. FILE may be stdout; with a third argument it is the value of that
// name in lines of NAME=VALUE.
func cmdSetenv(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: setenv NAME FILE [KEY]")
	}
	text := strings.TrimSuffix(ts.ReadFile(args[1]), "\n")
	if len(args) == 3 {
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, args[2]+"="); ok {
				ts.Setenv(args[0], strings.TrimSpace(value))
				return
			}
		}
		ts.Fatalf("no %s in %s", args[2], args[1])
	}
	ts.Setenv(args[0], text)
}

// untilout REGEXP COMMAND... runs a command until what it prints matches.
func cmdUntilOut(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: untilout REGEXP COMMAND [ARGS]")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ts.Check(eventually(scriptPatience, func() error {
		err := ts.Exec(args[1], args[2:]...)
		if out := ts.ReadFile("stdout"); err == nil && !re.MatchString(out) {
			err = fmt.Errorf("%q does not match %q", out, args[0])
		}
		return err
	}))
}

// waitfor FILE REGEXP waits until a file that grows matches.
func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: waitfor FILE REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	err = eventually(scriptPatience, func() error {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && !re.Match(b) {
			err = fmt.Errorf("%s does not match %q: %.2000q", args[0], args[1], b)
		}
		return err
	})
	ts.Check(err)
}

// eventually tries until there is no error, or patience has come to its end.
func eventually(patience time.Duration, try func() error) error {
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-deadline:
			return fmt.Errorf("not after %v: %w", patience, err)
		case <-tick.C:
		}
	}
}

// rows FILE FIRST LAST checks that the output rows in a file of rows have the
// lines FIRST to LAST, each once and in order, that their numbers have no gap,
// and that the seq of all rows has none.
func cmdRows(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: rows FILE FIRST LAST")
	}
	first, err1 := strconv.Atoi(args[1])
	last, err2 := strconv.Atoi(args[2])
	ts.Check(errors.Join(err1, err2))
	ts.Check(checkRows([]byte(ts.ReadFile(args[0])), first, last))
}

func checkRows(log []byte, first, last int) error {
	want, n, seq := first, uint64(0), uint64(0)
	for line := range bytes.Lines(log) {
		var r struct {
			Seq  uint64 `json:"seq"`
			Type string `json:"type"`
			N    uint64 `json:"n"`
			Line string `json:"line"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("row %q: %w", line, err)
		}
		if seq++; r.Seq != seq {
			return fmt.Errorf("row %d has seq %d", seq, r.Seq)
		}
		if r.Type != "output" {
			continue
		}
		if n++; r.N != n || r.Line != strconv.Itoa(want) {
			return fmt.Errorf("output row %d has n %d and line %q, want line %d", n, r.N, r.Line, want)
		}
		want++
	}
	if want != last+1 {
		return fmt.Errorf("the last line is %d, want %d", want-1, last)
	}
	return nil
}

// signal SIGNAL PIDFILE sends a signal to the process whose id is in a file.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: signal SIGNAL PIDFILE")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(err)
	sig := unix.SignalNum("SIG" + args[0])
	if sig == 0 || pid <= 1 {
		ts.Fatalf("signal %s to process %d?", args[0], pid)
	}
	ts.Check(syscall.Kill(pid, sig))
}

// exitis CODE COMMAND... runs a command and checks its exit code. Its output
// is that of stdout and stderr.
func cmdExitIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exitis CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("%s exited with %d, want %d", args[1], code, want)
	}
}
