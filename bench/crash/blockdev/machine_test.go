package blockdev_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"durafs/bench/crash/blockdev"
	"durafs/internal/need"
)

const diskBytes = 64 << 20

// formatted is an empty ext4, made once.
var formatted = sync.OnceValues(func() (blockdev.Image, error) {
	dir, err := os.MkdirTemp("", "durafs-blockdev")
	if err != nil {
		return blockdev.Image{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "image")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, diskBytes)); err != nil {
		return blockdev.Image{}, err
	}
	out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", "-b", "4096", "-J", "size=4",
		"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", file).CombinedOutput()
	if err != nil {
		return blockdev.Image{}, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return blockdev.ReadImage(file)
})

// machine is a real ext4 on a recorded device, and what processes on it have
// promised.
type machine struct {
	t   *testing.T
	dev *blockdev.Device // nil: it is in a directory of this machine
	mnt string
	// plant is the number of a fault that its processes have.
	plant int

	tried    []string
	promises []promise
}

// promise is a key that will be there, from so many events of the device on.
type promise struct {
	key string
	at  int
	how string // opAcked or opShown
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	need.Loop(t)
	need.FUSE(t)
	base, err := formatted()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	served, mnt := filepath.Join(dir, "served"), filepath.Join(dir, "mnt")
	if err := errors.Join(os.Mkdir(served, 0o700), os.Mkdir(mnt, 0o700)); err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, mnt: mnt}
	if m.dev, err = blockdev.Serve(served, base); err != nil {
		t.Fatal(err)
	}
	// Cleanups run in the reverse order.
	t.Cleanup(func() { m.check("close the device", m.dev.Close()) })
	loop, err := blockdev.Attach(m.dev.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.check("detach", loop.Detach()) })
	if err := loop.Mount(mnt, "ext4"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.dev.SetFault(nil)
		m.check("unmount", blockdev.Unmount(mnt))
	})
	return m
}

func (m *machine) check(what string, err error) {
	if err != nil {
		m.t.Errorf("%s: %v", what, err)
	}
}

func (m *machine) dir() string { return filepath.Join(m.mnt, "store") }

// process is a worker on the machine.
type process struct {
	m   *machine
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	err strings.Builder

	shown []string // nil: it did not open the store
	acks  int
}

// start lets a process begin.
func (m *machine) start(name string, steps int) *process {
	m.t.Helper()
	text, err := json.Marshal(order{Dir: m.dir(), Name: name, Steps: steps, Tried: m.tried, Plant: m.plant})
	if err != nil {
		m.t.Fatal(err)
	}
	p := &process{m: m, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	p.cmd.Stderr = &p.err
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(p.kill) // before the unmount, if a test fails
	p.out = json.NewDecoder(out)
	return p
}

// kill ends the process without a trace.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
}

// listen takes what the process tells until its script is over, and returns what
// it says at its end; an error if it ends by itself. each is told of every
// message, when it is noted.
func (p *process) listen(each func(message)) (string, error) {
	for {
		var msg message
		if err := p.out.Decode(&msg); err != nil {
			p.kill()
			return "", fmt.Errorf("the process ended: %w\n%s", err, p.err.String())
		}
		p.m.note(p, msg)
		if each != nil {
			each(msg)
		}
		if _, err := p.in.Write([]byte("\n")); err != nil {
			return "", fmt.Errorf("the process ended: %w", err)
		}
		if msg.Op == opDone {
			return msg.Text, nil
		}
	}
}

func (m *machine) note(p *process, msg message) {
	switch msg.Op {
	case opTried:
		m.tried = append(m.tried, msg.Keys...)
		return
	case opAcked:
		p.acks++
	case opShown:
		p.shown = append([]string{}, msg.Keys...)
	}
	at := 0
	if m.dev != nil {
		m.dev.Note(msg.Op + " " + strings.Join(msg.Keys, ", "))
		at = m.dev.Events()
	}
	for _, key := range msg.Keys {
		m.promises = append(m.promises, promise{key, at, msg.Op})
	}
}

// missing is a promise, made in time, that is not among the keys.
func (m *machine) missing(events int, there []string) (promise, bool) {
	is := map[string]bool{}
	for _, key := range there {
		is[key] = true
	}
	i := slices.IndexFunc(m.promises, func(p promise) bool { return p.at <= events && !is[p.key] })
	if i < 0 {
		return promise{}, false
	}
	return m.promises[i], true
}
