package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"durafs/control"
)

// effectServer is the world outside: it counts effects by the idempotency key
// that comes with them, and holds an agent back at a moment of its life, so that
// it can be killed there.
type effectServer struct {
	l *net.UnixListener

	mu      sync.Mutex
	effects map[string]int      // by key
	hold    map[string]string   // at which moment each agent is held back
	arrived map[string]bool     // agents that are there
	ended   map[string]string   // how each agent ended
	open    map[string]net.Conn // agents that are held back
}

func serveEffects(t *testing.T, dir string) *effectServer {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "effects"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := &effectServer{
		l: l, effects: map[string]int{}, hold: map[string]string{}, arrived: map[string]bool{},
		ended: map[string]string{}, open: map[string]net.Conn{},
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); s.release(); serving.Wait() })
	return s
}

// serve answers one line: AGENT MOMENT WORD.
func (s *effectServer) serve(c net.Conn) {
	line, err := bufio.NewReader(c).ReadString('\n')
	f := strings.Fields(line)
	if err != nil || len(f) != 3 {
		c.Close()
		return
	}
	agent, moment, word := f[0], f[1], f[2]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch moment {
	case "effect":
		s.effects[word]++
	case "end":
		s.ended[agent] = word
	case s.hold[agent]:
		s.arrived[agent] = true
		s.open[agent] = c
		return
	}
	c.Write([]byte("go on\n"))
	c.Close()
}

// release lets the agents go on that are held back, and holds nobody any more.
func (s *effectServer) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.hold)
	for agent, c := range s.open {
		c.Write([]byte("go on\n"))
		c.Close()
		delete(s.open, agent)
	}
}

func (s *effectServer) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[id+":t:0"]
}

func (s *effectServer) how(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[id]
}

func init() { helpers["effects"] = effectAgent }

// effectAgent is the process that has effects: it runs one tool and settles. It
// says at each moment where it is, and goes on when it is told to.
func effectAgent() error {
	id, resume, safety := os.Getenv("AGENT_RUN"), os.Getenv("AGENT_RESUME"), os.Getenv("AGENT_SAFETY")
	say := func(moment, word string) error {
		c, err := net.Dial("unix", os.Getenv("AGENT_EFFECTS"))
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintln(c, id, moment, word)
		_, err = bufio.NewReader(c).ReadString('\n')
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyPatience)
	defer cancel()
	var c control.Client
	var r *control.Run
	var err error
	if resume == "" {
		lease := agentLease.Milliseconds()
		r, err = c.Run(ctx, control.StartRequest{ID: id, LeaseMS: &lease})
	} else {
		r, _, err = c.Resumed(ctx, id, resume, nil)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	got, err := r.Tool(ctx, control.ToolCall{ID: "c", Name: "t"}, safety, func(ctx context.Context, k control.Claimed) (any, error) {
		return "done", errors.Join(say("before", "-"), say("effect", k.Key), say("after", "-"))
	}, nil)
	if errors.Is(err, control.ErrOwnerDecides) {
		return say("end", "owner-decides")
	}
	if err != nil {
		return errors.Join(err, say("end", "failed"))
	}
	how := "told"
	if got.ByStore {
		how = "closed"
	}
	if err := say("recorded", "-"); err != nil {
		return err
	}
	if _, err := r.Settle(ctx, control.SettleRequest{Status: control.Success}); err != nil {
		return errors.Join(err, say("end", "failed"))
	}
	return say("end", how)
}

// effectRun is one agent's run, and what it is tried with.
type effectRun struct {
	id, safety, moment string
	life               *exec.Cmd
}

// The moments at which agents and daemon are killed.
const (
	beforeEffect = "before"   // claimed
	afterEffect  = "after"    // the effect has happened, and nobody was told
	recorded     = "recorded" // the outcome is there
)

// TestEffects: agents, or the daemon, or both are killed before an effect,
// after it, and after its outcome, for each class of tool. The world outside
// counts. What is read-only or idempotent is resumed by whoever takes what is
// offered; what is not never runs again unless the owner says so.
func TestEffects(t *testing.T) {
	whose := []string{"agent", "daemon", "both"}
	if testing.Short() {
		whose = whose[2:]
	}
	for _, who := range whose {
		t.Run(who, func(t *testing.T) {
			x := &effectTrial{t: t, d: &victim{t: t, program: buildProgram(t), dir: shortDir(t)}}
			t.Cleanup(x.d.kill)
			x.d.start()
			x.world = serveEffects(t, x.d.dir)
			x.c = &control.Client{Socket: x.d.socket()}
			t.Cleanup(x.c.CloseIdle)
			x.begin()
			if who != "agent" {
				x.d.kill()
			}
			if who != "daemon" {
				for _, r := range x.runs {
					r.life.Process.Kill()
					r.life.Wait()
				}
			}
			if who != "agent" {
				x.d.start()
			}
			x.world.release()
			if who == "daemon" {
				x.untouched()
				return
			}
			x.dispatch()
			x.ownerLast()
		})
	}
}

type effectTrial struct {
	t     *testing.T
	d     *victim
	c     *control.Client
	world *effectServer
	runs  []*effectRun
}

// begin brings an agent for each class to each moment.
func (x *effectTrial) begin() {
	for _, safety := range []string{control.ReadOnly, control.Idempotent, control.Mutating, control.Unknown} {
		for _, moment := range []string{beforeEffect, afterEffect, recorded} {
			r := &effectRun{id: "exec_" + safety + "-" + moment, safety: safety, moment: moment}
			x.world.mu.Lock()
			x.world.hold[r.id] = moment
			x.world.mu.Unlock()
			x.runs = append(x.runs, r)
			x.spawn(r, "")
		}
	}
	x.wait("agents at their moments", func() bool {
		x.world.mu.Lock()
		defer x.world.mu.Unlock()
		return len(x.world.arrived) == len(x.runs)
	})
}

func (x *effectTrial) spawn(r *effectRun, resume string) {
	x.t.Helper()
	r.life = exec.Command(os.Args[0])
	r.life.Env = append(os.Environ(), helperEnv+"=effects", control.EnvSocket+"="+x.d.socket(),
		"AGENT_EFFECTS="+x.world.l.Addr().String(), "AGENT_RUN="+r.id, "AGENT_RESUME="+resume, "AGENT_SAFETY="+r.safety)
	r.life.Stderr = os.Stderr
	r.life.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.life.Start(); err != nil {
		x.t.Fatal(err)
	}
	life := r.life
	x.t.Cleanup(func() { life.Process.Kill(); life.Wait() })
}

func (x *effectTrial) wait(what string, done func() bool) {
	x.t.Helper()
	for end := time.Now().Add(readyPatience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("no %s", what)
		}
	}
}

func (x *effectTrial) record(r *effectRun) *control.Record {
	x.t.Helper()
	rec, _, err := x.c.Get(x.t.Context(), r.id)
	if err != nil {
		x.t.Fatal(err)
	}
	return rec
}

// want checks how often the effect of a run has happened, and how it ended.
func (x *effectTrial) want(r *effectRun, effects int, how string) {
	x.t.Helper()
	if n := x.world.count(r.id); n != effects {
		x.t.Errorf("%s: the effect happened %d times, want %d", r.id, n, effects)
	}
	if got := x.world.how(r.id); got != how {
		x.t.Errorf("%s: its agent ended %q, want %q", r.id, got, how)
	}
}

// untouched: agents that outlived the daemon end as if nothing had been.
func (x *effectTrial) untouched() {
	for _, r := range x.runs {
		x.wait("end of "+r.id, func() bool { return x.world.how(r.id) != "" })
		x.want(r, 1, "told")
		if rec := x.record(r); rec.Phase != control.PhaseTerminal || rec.Epoch != 1 {
			x.t.Errorf("%s: %s in epoch %d", r.id, rec.Phase, rec.Epoch)
		}
	}
}

// replayable reports whether a class may run again without being asked.
func (r *effectRun) replayable() bool {
	return r.safety == control.ReadOnly || r.safety == control.Idempotent
}

// dispatch takes what is offered, as a supervisor does, until there is nothing
// left that needs no owner.
func (x *effectTrial) dispatch() {
	byID := map[string]*effectRun{}
	for _, r := range x.runs {
		byID[r.id] = r
	}
	x.wait("end of what may run again", func() bool {
		offers, err := x.c.Resumable(x.t.Context())
		if err != nil {
			x.t.Fatal(err)
		}
		for _, o := range offers {
			r := byID[o.ID]
			if !r.replayable() {
				x.t.Fatalf("%s is offered", r.id)
			}
			p, err := x.c.Prepare(x.t.Context(), o.ID, control.PrepareRequest{IfMatch: o.ETag, Dead: true})
			if err != nil {
				x.t.Fatal(err)
			}
			x.spawn(r, p.Resume)
		}
		for _, r := range x.runs {
			if r.replayable() && x.world.how(r.id) == "" || x.record(r).Phase == control.PhaseRunning {
				return false
			}
		}
		return true
	})
	for _, r := range x.runs {
		if r.replayable() {
			x.want(r, map[string]int{beforeEffect: 1, afterEffect: 2, recorded: 1}[r.moment], "told")
		}
	}
}

// ownerLast: the others wait for their owner; a prepare that says nothing is
// refused. Then half of them may run again and half are closed.
func (x *effectTrial) ownerLast() {
	for _, r := range x.runs {
		if r.replayable() {
			continue
		}
		before := map[string]int{beforeEffect: 0, afterEffect: 1, recorded: 1}[r.moment]
		x.want(r, before, "")
		rec, etag, err := x.c.Get(x.t.Context(), r.id)
		if err != nil || rec.Phase != control.PhasePausedSideEffectUncertain {
			x.t.Fatalf("%s: %+v, %v", r.id, rec, err)
		}
		q := control.PrepareRequest{IfMatch: etag, Dead: true}
		effects, how := before, "told"
		if r.moment != recorded {
			if _, err := x.c.Prepare(x.t.Context(), r.id, q); control.Code(err) != control.CodeUnaccounted {
				x.t.Errorf("%s: prepared without a word about its call: %v", r.id, err)
			}
			if r.safety == control.Mutating {
				q.Close, how = []uint64{1}, "closed"
			} else {
				q.Retry = []uint64{1}
				effects++
			}
		}
		p, err := x.c.Prepare(x.t.Context(), r.id, q)
		if err != nil {
			x.t.Fatal(err)
		}
		x.spawn(r, p.Resume)
		x.wait("end of "+r.id, func() bool { return x.world.how(r.id) != "" })
		x.want(r, effects, how)
	}
}
