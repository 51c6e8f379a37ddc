package daemon_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"durafs/control"
)

var (
	roundsFlag = flag.Int("rounds", 50, "how often TestKill kills the daemon")
	seedFlag   = flag.Uint64("seed", 0, "seed of TestKill, 0 for another one each time")
)

const (
	killClients     = 16
	killRoundsShort = 5
	// killAfterMax is how long after the clients began the daemon dies, at
	// the latest.
	killAfterMax = 200 * time.Millisecond
	// readyPatience bounds the wait for a daemon, on a machine that is busy.
	readyPatience = 30 * time.Second
)

// Sixteen clients append rows, one by one and in streams, and put payloads,
// while the daemon, a process of its own, is killed at random moments, at
// times while it recovers. After each restart the clients attach, and what
// each knows of its own run is compared with what is there: what was
// acknowledged is there byte for byte and in order, what was refused is not,
// and of what nobody answered there is a beginning and nothing else.
func TestKill(t *testing.T) {
	rounds := *roundsFlag
	if testing.Short() && !isSet("rounds") {
		rounds = killRoundsShort
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%d rounds, -seed %d", rounds, seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	d := &victim{t: t, program: buildProgram(t), dir: t.TempDir()}
	t.Cleanup(d.kill)

	d.start()
	clients := startClients(t, d.socket(), seed)
	for round := range rounds {
		runRound(clients, d, rnd, round)
		if rnd.IntN(4) == 0 { // and again, while it recovers
			d.spawn()
			d.after(rnd, 50*time.Millisecond)
			d.kill()
		}
		d.start()
		each(clients, func(c *killClient) error { return c.comeBack(t.Context(), round%10 == 9) })
		if t.Failed() {
			t.Fatalf("in round %d of -seed %d", round, seed)
		}
	}
	each(clients, func(c *killClient) error { return c.settle(t.Context()) })
	d.kill()
	d.start()
	each(clients, func(c *killClient) error { return c.checkSettled(t.Context()) })
	rows, payloads := 0, 0
	for _, c := range clients {
		rows += len(c.rows)
		payloads += len(c.payloads)
	}
	t.Logf("%d rows and %d payloads were acknowledged or found, and all are there", rows, payloads)
}

// runRound lets the clients write until the daemon is killed.
func runRound(clients []*killClient, d *victim, rnd *rand.Rand, round int) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var writing sync.WaitGroup
	for _, c := range clients {
		writing.Go(func() { c.write(ctx, round) })
	}
	d.after(rnd, killAfterMax)
	d.kill()
	cancel()
	writing.Wait()
}

// each calls fn for all clients at once and reports their errors.
func each(clients []*killClient, fn func(*killClient) error) {
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			if err := fn(c); err != nil {
				c.t.Errorf("client %d, run %s: %v", c.n, c.id, err)
			}
		})
	}
	wg.Wait()
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// victim is the daemon that is killed: a process.
type victim struct {
	t       *testing.T
	program string
	dir     string
	flags   []string // of serve, besides
	cmd     *exec.Cmd
}

func (d *victim) socket() string { return filepath.Join(d.dir, "s", "control.sock") }

func (d *victim) spawn() {
	d.t.Helper()
	d.cmd = exec.Command(d.program, append([]string{"serve", "--store", filepath.Join(d.dir, "s"), "--log-level", "error"}, d.flags...)...)
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	d.cmd.Stderr = log
	d.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR=")
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // of a test that panics too
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
}

// start spawns the daemon and waits until it is ready.
func (d *victim) start() {
	d.t.Helper()
	d.spawn()
	ctx, cancel := context.WithTimeout(d.t.Context(), readyPatience)
	defer cancel()
	for {
		c := &control.Client{Socket: d.socket()}
		_, err := c.Status(ctx)
		c.CloseIdle()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			log, _ := os.ReadFile(filepath.Join(d.dir, "log"))
			d.t.Fatalf("the daemon does not come back: %v\n%s", err, log)
		}
	}
}

// after waits for a random time.
func (d *victim) after(rnd *rand.Rand, most time.Duration) {
	<-time.After(time.Duration(rnd.Int64N(int64(most))))
}

func (d *victim) kill() {
	if d.cmd == nil {
		return
	}
	d.cmd.Process.Kill()
	d.cmd.Wait()
	d.cmd = nil
}

func startClients(t *testing.T, socket string, seed uint64) []*killClient {
	t.Helper()
	var clients []*killClient
	for n := range killClients {
		clients = append(clients, &killClient{
			t: t, n: n, rnd: rand.New(rand.NewPCG(seed, uint64(n+1))),
			c:        &control.Client{Socket: socket},
			payloads: map[string]payload{},
		})
	}
	each(clients, func(c *killClient) error { return c.start(t.Context()) })
	if t.Failed() {
		t.FailNow()
	}
	return clients
}

func payloadName(round, i int) string { return fmt.Sprintf("p-%d-%d", round, i) }
