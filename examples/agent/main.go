// Command agent is a small agent that uses durafs: it reads the files of a
// directory, counts their words, draws a chart of the counts, and writes a
// report. Its model is a script; its tools are real.
//
//	agent -id 0196a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b -dir DIR
//
// The first time this starts the run with that id. Whenever it is started again
// with the same id it goes on with the run: it may be killed at any line, and the
// files that it leaves are those of an agent that was not.
//
// # The idea
//
// It keeps no state of its own. What has happened is in the run's history, and
// what to do next is a function of that (model.go). Each tool call has the same
// label in every life, so that one which has ended is answered and not run
// again. Tools that change something are idempotent: they know the key of the
// call, or write the same file as before (tools.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"durafs/control"
)

func main() {
	id := flag.String("id", "", "id of the run: a lower-case UUID, or exec_ and a name")
	dir := flag.String("dir", ".", "directory with the files to read, where the report is written")
	lease := flag.Duration("lease", 45*time.Second, "how long the run may be silent before it counts as lost")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *id, *dir, *lease)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, id, dir string, lease time.Duration) error {
	if id == "" {
		return errors.New("give the run an -id, so that it can be found again")
	}
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	step()
	var c control.Client // finds the daemon's socket
	r, err := begin(ctx, &c, id, lease)
	if err != nil || r == nil {
		return err // nil: the run has ended before
	}
	defer r.Close()
	a := &agent{run: r, dir: dir}
	if err := a.recall(ctx); err != nil {
		return err
	}
	return a.work(ctx)
}

// lock keeps other agents out of the directory. Who has it knows that the agent
// before is dead.
func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".agent.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another agent works in %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}
