package daemon_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"durafs/control"
)

const (
	// agentsAtOnce is how many agents are killed and resumed side by side: most
	// of the time they wait until they count as lost.
	agentsAtOnce = 24
	// agentLease is short: so long it takes until a killed agent counts as lost.
	agentLease = 250 * time.Millisecond
	agentPath  = "durafs/examples/agent"
)

// exampleAgent is the sample agent with a run and a directory of its own.
type exampleAgent struct {
	t      *testing.T
	d      *victim
	id     string
	dir    string
	killed int
}

func (d *victim) exampleAgent(name string) *exampleAgent {
	d.t.Helper()
	a := &exampleAgent{t: d.t, d: d, id: "exec_" + name, dir: filepath.Join(d.dir, name)}
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		d.t.Fatal(err)
	}
	for file, text := range map[string]string{"a.txt": "one two three\n", "b.txt": "four five\n"} {
		if err := os.WriteFile(filepath.Join(a.dir, file), []byte(text), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	return a
}

// command is the agent's next life, which ends at a step, 0 for none.
func (a *exampleAgent) command(dieAt int) *exec.Cmd {
	cmd := exec.Command(build(a.t, agentPath), "-id", a.id, "-dir", a.dir, "-lease", agentLease.String())
	cmd.Env = append(os.Environ(), control.EnvSocket+"="+a.d.socket(), fmt.Sprintf("AGENT_DIE_AT=%d", dieAt))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// live lets the agent live until a step, and reports whether it died there.
func (a *exampleAgent) live(dieAt int) (died bool) {
	out, err := a.command(dieAt).CombinedOutput()
	if wasKilled(err) {
		a.killed++
		return true
	}
	if err != nil {
		a.t.Errorf("agent %s, killed %d times: %v\n%s", a.id, a.killed, err, out)
	}
	return false
}

func wasKilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	ws, ok := exit.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// files are what the agent left: its files without the run's id, and the answer.
func (a *exampleAgent) files() map[string]string {
	files := map[string]string{}
	paths, _ := filepath.Glob(filepath.Join(a.dir, "*"))
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			a.t.Error(err)
		}
		files[filepath.Base(p)] = strings.ReplaceAll(string(b), a.id, "ID")
	}
	c := &control.Client{Socket: a.d.socket()}
	defer c.CloseIdle()
	rec, _, err := c.Get(a.t.Context(), a.id)
	if err != nil || rec.Terminal == nil || rec.Terminal.Status != control.Success {
		a.t.Errorf("agent %s: the run did not succeed: %+v, %v", a.id, rec, err)
		return files
	}
	files["the answer"] = rec.Terminal.Payload.B3
	return files
}

// TestAgentKilled: the sample agent is killed at each of its steps, at times once
// more at another one, and taken up again: in the end its files and its answer
// are those of an agent that nobody killed.
func TestAgentKilled(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	d := &victim{t: t, program: buildProgram(t), dir: shortDir(t)}
	t.Cleanup(d.kill)
	d.start()
	whole := d.exampleAgent("whole")
	whole.live(0)
	want := whole.files()
	if len(want) != 6 || !strings.Contains(want["notes.txt"], "ID:note:1\n") || !strings.Contains(want["report.md"], "Chart: BLAKE3") {
		t.Fatalf("the agent left %q", want)
	}
	var last atomic.Int64 // the step behind the last
	last.Store(1 << 30)
	var agents sync.WaitGroup
	steps := make(chan [2]int)
	for range agentsAtOnce {
		agents.Go(func() {
			for at := range steps {
				a := d.exampleAgent(fmt.Sprintf("step-%d", at[0]))
				if !a.live(at[0]) {
					last.Store(min(last.Load(), int64(at[0])))
				}
				if at[1] > 0 {
					a.live(at[1])
				}
				if a.live(0) {
					t.Error("killed by nobody")
				}
				if got := a.files(); !maps.Equal(got, want) {
					t.Errorf("killed at steps %v of -seed %d it left\n%q\nnot\n%q", at, seed, got, want)
				}
			}
		})
	}
	every := 1
	if testing.Short() {
		every = 11
	}
	n := 1
	for ; int64(n) < last.Load() && !t.Failed(); n += every {
		again := 0 // now and then
		if n%3 == 0 {
			again = 1 + rnd.IntN(30)
		}
		steps <- [2]int{n, again}
	}
	close(steps)
	agents.Wait()
	if n < 40 {
		t.Errorf("the agent has %d steps: is it still killed at all of its lines?", n)
	}
	t.Logf("killed at each of about %d steps, -seed %d", last.Load(), seed)
}
