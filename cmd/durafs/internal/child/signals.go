package child

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// passed are the signals that are passed on.
var passed = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGWINCH, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP,
}

// signalsMax is how many signals may wait while the command is being started.
const signalsMax = 64

// forwarder passes signals on to one process, from one goroutine.
type forwarder struct {
	signals chan os.Signal
	pipe    chan os.Signal // takes SIGPIPE, which would else end us
	done    chan struct{}  // closed by stop
	ended   chan struct{}  // closed by the goroutine
}

// catch begins to hold signals back. What was ignored when we were started
// (by nohup, for a background job) stays ignored, for the command too.
func catch() *forwarder {
	f := &forwarder{
		signals: make(chan os.Signal, signalsMax),
		pipe:    make(chan os.Signal, 1),
		done:    make(chan struct{}),
	}
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(f.signals, sig)
		}
	}
	signal.Notify(f.pipe, syscall.SIGPIPE)
	return f
}

// to passes on what came and what comes.
func (f *forwarder) to(p *os.Process) {
	f.ended = make(chan struct{})
	go func() {
		defer close(f.ended)
		for {
			select {
			case sig := <-f.signals:
				pass(p, sig.(syscall.Signal))
			case <-f.done:
				return
			}
		}
	}()
}

// stop ends the passing on. Nothing is given back to its default action:
// what the command printed last is still on its way, and SIGPIPE must not end
// us either.
func (f *forwarder) stop() {
	close(f.done)
	if f.ended != nil {
		<-f.ended
	}
}

func pass(p *os.Process, sig syscall.Signal) {
	fromTerminal := inForeground()
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		if !fromTerminal {
			p.Signal(sig)
		}
	case syscall.SIGTSTP:
		// Stop with the command, and let it go on when we do.
		if !fromTerminal {
			p.Signal(sig)
		}
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		p.Signal(syscall.SIGCONT)
	default:
		p.Signal(sig)
	}
}

// inForeground reports whether a terminal's keys send signals to our group.
func inForeground() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
