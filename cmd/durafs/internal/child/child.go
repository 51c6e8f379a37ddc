// Package child runs a command as if nobody stood between it and the user.
//
// # The idea
//
// The command stays in our process group, so that a terminal treats both as
// one job: Ctrl-C, Ctrl-Z and fg reach the command from the kernel, and it may
// read the terminal. Signals that someone sends to us alone are passed on. The
// two cannot be told apart when they arrive; but where our group is in the
// foreground of a terminal, INT and QUIT come from its keys, and passing them
// on would deliver them twice (many programs take the second as "at once").
//
// Its output goes through pipes, which are read at all times. When whoever
// reads our output goes away, the command's pipe is closed too, so that it is
// told as it would have been without us.
package child

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Exit codes of what could not be started, as shells have them.
const (
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// Child is a started command. Its owner reads both pipes to their ends and
// calls Wait once.
type Child struct {
	Stdout, Stderr *os.File // the reading ends

	cmd     *exec.Cmd
	forward *forwarder
}

// Look tells whether argv[0] would be found, and where: as a shell finds it,
// also in the working directory where $PATH names that.
func Look(name string) (path string, err error) {
	path, err = exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	return path, err
}

// Start starts argv with the environment env and our standard input. A script
// without "#!" is given to sh, as by every shell.
func Start(argv, env []string) (*Child, error) {
	c, err := start(argv, argv[0], env)
	if errors.Is(err, syscall.ENOEXEC) {
		path, lookErr := Look(argv[0])
		if lookErr != nil {
			return nil, err
		}
		if !strings.Contains(path, "/") {
			path = "./" + path
		}
		c, err = start(append([]string{"sh", path}, argv[1:]...), "/bin/sh", env)
	}
	return c, err
}

// start starts the program with the name, or at the path, file.
func start(argv []string, file string, env []string) (*Child, error) {
	cmd := exec.Command(file, argv[1:]...)
	cmd.Args[0] = argv[0]
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil
	}
	cmd.Env, cmd.Stdin = env, os.Stdin
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		closeAll(outR, outW)
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	f := catch() // before there is a child, so that no signal falls between
	err = cmd.Start()
	closeAll(outW, errW)
	if err != nil {
		f.stop()
		closeAll(outR, errR)
		return nil, err
	}
	f.to(cmd.Process)
	return &Child{Stdout: outR, Stderr: errR, cmd: cmd, forward: f}, nil
}

// StartExitCode is the code that a shell would exit with for an error of
// Start.
func StartExitCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return ExitNotFound
	}
	return ExitNotExecutable
}

// Exit is how a command ended: by a code, or by a signal.
type Exit struct {
	Code   int
	Signal syscall.Signal // 0: none
}

// Status is the code that a shell reports: 128+n for signal n.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Wait waits for the command, not for what it left behind, and stops passing
// signals on; from then on Signals gives them.
func (c *Child) Wait() (Exit, error) {
	err := c.cmd.Wait()
	c.forward.stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Exit{}, err
	}
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return Exit{Signal: status.Signal()}, nil
	}
	return Exit{Code: status.ExitStatus()}, nil
}

// Signals gives the signals that come after the command has ended. They stay
// caught until the process ends.
func (c *Child) Signals() <-chan os.Signal { return c.forward.signals }

// PID is the id of the command's process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Signal sends the command a signal.
func (c *Child) Signal(sig syscall.Signal) error { return c.cmd.Process.Signal(sig) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}
