package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"durafs/control"
)

const (
	upgradeAgents   = 16
	upgradeCommands = 4
	// upgradeRows is how far each agent gets between two restarts.
	upgradeRows = 6
)

// upgrade replaces the program by another file, as an installation does.
func (d *victim) upgrade() {
	d.t.Helper()
	b, err := os.ReadFile(d.program)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(d.program+".new", append(b, "\nthe next version"...), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(d.program+".new", d.program); err != nil {
		d.t.Fatal(err)
	}
}

// terminate asks the daemon to end, and waits until it has.
func (d *victim) terminate() {
	d.t.Helper()
	d.cmd.Process.Signal(syscall.SIGTERM)
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("the daemon that was asked to end: %v", err)
	}
	d.cmd = nil
}

// TestUpgrade: under 16 working agents and 4 commands the daemon is killed and
// started again; upgraded: asked to end, and another program started on its
// store; and upgraded while the old one is killed. All attach and finish; each
// row is there once, each effect happened once, and no command notices.
func TestUpgrade(t *testing.T) {
	rounds := 3
	if isSet("rounds") {
		rounds = *roundsFlag
	} else if testing.Short() {
		rounds = 2
	}
	dir := shortDir(t)
	d := &victim{t: t, program: filepath.Join(dir, "durafs"), dir: dir}
	b, err := os.ReadFile(buildProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.program, b, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	d.start()
	end := make(chan struct{})
	var agents []*steadyAgent
	for n := range upgradeAgents {
		agents = append(agents, startSteady(t, d, n, end))
	}
	var commands []*steadyCommand
	for n := range upgradeCommands {
		commands = append(commands, startCommand(t, d, n))
	}
	for round := range rounds {
		progress(t, agents, commands)
		switch round % 3 {
		case 0:
			d.kill()
		case 1:
			d.upgrade()
			d.terminate()
		case 2:
			d.upgrade()
			d.kill()
		}
		d.start()
	}
	progress(t, agents, commands)
	close(end)
	for _, a := range agents {
		a.check()
	}
	for _, c := range commands {
		c.check()
	}
}

// steadyAgent works until it is told to end, whatever becomes of the daemon.
type steadyAgent struct {
	t       *testing.T
	run     *control.Run
	rows    atomic.Int64
	effects sync.Map // how often, by key
	calls   int
	done    chan error
}

func startSteady(t *testing.T, d *victim, n int, end <-chan struct{}) *steadyAgent {
	t.Helper()
	c := &control.Client{Socket: d.socket()}
	run, err := c.Run(t.Context(), control.StartRequest{Labels: map[string]string{"agent": strconv.Itoa(n)}})
	if err != nil {
		t.Fatal(err)
	}
	a := &steadyAgent{t: t, run: run, done: make(chan error, 1)}
	t.Cleanup(func() { run.Close(); c.CloseIdle() })
	go func() { a.done <- a.work(t.Context(), end) }()
	return a
}

func (a *steadyAgent) work(ctx context.Context, end <-chan struct{}) error {
	safeties := []string{control.ReadOnly, control.Idempotent, control.Mutating, control.Unknown}
	for i := 1; ; i++ {
		select {
		case <-end:
			_, err := a.run.Settle(ctx, control.SettleRequest{Status: control.Success})
			return err
		default:
		}
		if _, err := a.run.Log(ctx, map[string]int{"n": i}); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		a.rows.Store(int64(i))
		if i%3 != 0 {
			continue
		}
		a.calls++
		want := fmt.Sprintf(`{"status":"ok","value":%d}`, i)
		got, err := a.run.Tool(ctx, control.ToolCall{ID: strconv.Itoa(i), Name: "t"}, safeties[a.calls%4], func(_ context.Context, c control.Claimed) (any, error) {
			n, _ := a.effects.LoadOrStore(c.Key, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
			<-time.After(rand.N(5 * time.Millisecond))
			return i, nil
		}, nil)
		if err != nil || string(got.Outcome) != want {
			return fmt.Errorf("call at %d: %s, %w", i, got.Outcome, err)
		}
	}
}

// progress waits until all of them have got further by some rows.
func progress(t *testing.T, agents []*steadyAgent, commands []*steadyCommand) {
	t.Helper()
	var waits []func() bool
	for _, a := range agents {
		to := a.rows.Load() + upgradeRows
		waits = append(waits, func() bool { return a.rows.Load() >= to || len(a.done) > 0 })
	}
	for _, c := range commands {
		to := c.at() + upgradeRows
		waits = append(waits, func() bool { return c.at() >= to })
	}
	end := time.Now().Add(2 * readyPatience)
	for i, done := range waits {
		for ; !done(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("agent or command %d of %d is stuck", i, len(waits))
			}
		}
	}
}

func (a *steadyAgent) check() {
	a.t.Helper()
	if err := <-a.done; err != nil {
		a.t.Errorf("run %s: %v", a.run.ID(), err)
		return
	}
	want := int64(1)
	for _, line := range logOf(a.t, a.run.Client(), a.run.ID()) {
		var row struct {
			By string
			N  int64
		}
		if err := json.Unmarshal(line, &row); err != nil {
			a.t.Fatal(err)
		}
		if row.By == "store" {
			continue
		}
		if row.N != want {
			a.t.Fatalf("run %s: row %d where %d should be", a.run.ID(), row.N, want)
		}
		want++
	}
	if want-1 != a.rows.Load() {
		a.t.Errorf("run %s: %d rows of %d", a.run.ID(), want-1, a.rows.Load())
	}
	keys := 0
	a.effects.Range(func(key, n any) bool {
		keys++
		if n := n.(*atomic.Int64).Load(); n != 1 {
			a.t.Errorf("the effect %s happened %d times", key, n)
		}
		return true
	})
	h, err := a.run.Client().History(a.t.Context(), a.run.ID(), control.HistoryQuery{})
	if err != nil {
		a.t.Fatal(err)
	}
	defer h.Close()
	text, err := io.ReadAll(h)
	if lines := bytes.Count(text, []byte("\n")); err != nil || lines != a.calls || keys != a.calls || bytes.Contains(text, []byte("projection-failed")) {
		a.t.Errorf("run %s: %d calls, %d effects, %d in the history: %v", a.run.ID(), a.calls, keys, lines, err)
	}
	if a.run.Attached() == 0 {
		a.t.Errorf("run %s was never attached", a.run.ID())
	}
}

// logOf is the log as it is now.
func logOf(t *testing.T, c *control.Client, id string) (lines [][]byte) {
	t.Helper()
	l, err := c.Log(t.Context(), id, control.LogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for {
		line, err := l.Next()
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, bytes.Clone(line))
	}
}

// steadyCommand is a command under durafs exec, which prints numbers until a
// file says that it is to end.
type steadyCommand struct {
	t        *testing.T
	d        *victim
	dir      string
	cmd      *exec.Cmd
	out, err bytes.Buffer // read when it has ended
}

func startCommand(t *testing.T, d *victim, n int) *steadyCommand {
	t.Helper()
	c := &steadyCommand{t: t, d: d, dir: filepath.Join(d.dir, "command-"+strconv.Itoa(n))}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.cmd = exec.Command(d.program, "exec", "--print-id", "id", "--drain", "60s", "--", "sh", "-c",
		`i=0; while [ ! -e end ]; do i=$((i+1)); echo $i; echo $i > at; sleep 0.1; done; exit 3`)
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = c.dir, &c.out, &c.err
	c.cmd.Env = append(os.Environ(), control.EnvSocket+"="+d.socket(), "XDG_STATE_HOME="+c.dir)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	return c
}

// stop ends the command, if it has not ended.
func (c *steadyCommand) stop() {
	os.WriteFile(filepath.Join(c.dir, "end"), nil, 0o600)
	c.cmd.Wait()
}

func (c *steadyCommand) at() int {
	b, _ := os.ReadFile(filepath.Join(c.dir, "at"))
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

func (c *steadyCommand) check() {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "end"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.cmd.Wait()
	if code := c.cmd.ProcessState.ExitCode(); code != 3 || c.err.Len() > 0 {
		c.t.Errorf("the command ended with %d, and %q", code, &c.err)
	}
	id, err := os.ReadFile(filepath.Join(c.dir, "id"))
	if err != nil {
		c.t.Fatal(err)
	}
	client := &control.Client{Socket: c.d.socket()}
	defer client.CloseIdle()
	want := strings.Split(strings.TrimSuffix(c.out.String(), "\n"), "\n")
	attached := 0
	for _, line := range logOf(c.t, client, strings.TrimSpace(string(id))) {
		var row struct{ By, Type, Line string }
		if err := json.Unmarshal(line, &row); err != nil {
			c.t.Fatal(err)
		}
		if row.Type == "attached" {
			attached++
		}
		if row.By == "store" || row.Type != "output" {
			continue
		}
		if len(want) == 0 || row.Line != want[0] {
			c.t.Fatalf("the row %s, where %q should be", line, want[:min(1, len(want))])
		}
		want = want[1:]
	}
	if len(want) > 0 || attached == 0 {
		c.t.Errorf("%d lines are not in the log; attached %d times", len(want), attached)
	}
	rec, _, err := client.Get(c.t.Context(), strings.TrimSpace(string(id)))
	if err != nil || rec.Terminal == nil || rec.Terminal.Status != control.Failure {
		c.t.Errorf("the command's record: %+v, %v", rec, err)
	}
}
