package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"durafs/control"
)

// measurePayloadOut compares reading a payload through the mount with reading
// the same bytes from a file, for the first time and again. Serving and
// reading are processes of their own.
func measurePayloadOut(ctx context.Context, b *bench) (_ []Row, err error) {
	first, second := b.outName("first"), b.outName("second")
	d, err := b.startChild(ctx)
	if err != nil {
		note := "no mount here: " + err.Error()
		return []Row{
			{Name: first, Goal: firstGoal, Note: note},
			{Name: second, Goal: secondGoal, Note: note},
		}, nil
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	run, err := d.client.Start(ctx, control.StartRequest{Task: "bench"})
	if err != nil {
		return nil, err
	}
	var firsts, seconds []pair
	for round := range uint64(rounds) {
		f, s, err := b.readTwice(ctx, d, run, round)
		if err != nil {
			return nil, err
		}
		firsts, seconds = append(firsts, f), append(seconds, s)
	}
	return []Row{
		row(first, "MB/s", firstGoal, false, firsts),
		row(second, "MB/s", secondGoal, false, seconds),
	}, nil
}

func (b *bench) outName(which string) string {
	return fmt.Sprintf("payload of %s out through the mount / native, %s read", bytesText(b.outBytes), which)
}

const (
	firstGoal  = 0.50
	secondGoal = 0.95
)

// readTwice puts a payload and the same bytes as a file, and reads both twice:
// first with nothing cached, then cached.
func (b *bench) readTwice(ctx context.Context, d *child, run control.Started, round uint64) (first, second pair, err error) {
	name := fmt.Sprintf("p%d", round)
	body := agentText(round)
	_, err = d.client.WithWriter(run.Writer).Put(ctx, run.Record.ID, name, "", repeated(body, b.outBytes))
	if err != nil {
		return first, second, err
	}
	native := filepath.Join(b.dir, name)
	if err := writeNative(native, body, b.outBytes); err != nil {
		return first, second, err
	}
	defer os.Remove(native)
	if err := dropCache(b.dir); err != nil {
		return first, second, err
	}
	mounted := d.inRun(run.Record.ID, "payloads", name)
	for _, p := range []*pair{&first, &second} {
		if p.floor, err = readByProcess(ctx, native, b.outBytes); err != nil {
			return first, second, err
		}
		if p.value, err = readByProcess(ctx, mounted, b.outBytes); err != nil {
			return first, second, err
		}
	}
	return first, second, nil
}

func writeNative(name string, block []byte, n int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ReadFrom(repeated(block, n)); err != nil {
		return err
	}
	return f.Sync()
}

// dropCache makes the kernel forget what it has of the files below dir, but for
// those in a mount.
func dropCache(dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case isMount(e):
			return filepath.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		return dropFile(path)
	})
}

// readByProcess reads a file with dd(1) and tells MB/s.
func readByProcess(ctx context.Context, name string, n int64) (float64, error) {
	begin := time.Now()
	out, err := exec.CommandContext(ctx, "dd", "if="+name, "of=/dev/null", "bs=128k").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("dd: %w: %s", err, out)
	}
	return mbPerSecond(n, time.Since(begin)), nil
}
