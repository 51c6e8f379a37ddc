package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"durafs/control"
)

// outBytes is the size of each payload that is read through the mount.
const outBytes = 128 << 20

// measurePayloadOut compares reading a payload through the mount with reading
// the same bytes from a file, for the first time and again. The reader is a
// process of its own: one process must not serve a mount and read it.
func measurePayloadOut(ctx context.Context, dir string) (_ []Row, err error) {
	mount := filepath.Join(dir, "mnt")
	if err := os.Mkdir(mount, 0o700); err != nil {
		return nil, err
	}
	d, err := serve(ctx, dir, mount)
	if err != nil {
		note := "no mount here: " + err.Error()
		return []Row{
			{Name: firstRead, Goal: firstGoal, Note: note},
			{Name: secondRead, Goal: secondGoal, Note: note},
		}, nil
	}
	defer func() { err = errors.Join(err, d.stop()) }()

	run, err := d.client.Start(ctx, control.StartRequest{Task: "bench"})
	if err != nil {
		return nil, err
	}
	var first, second []pair
	for round := range uint64(rounds) {
		f, s, err := d.readTwice(ctx, dir, run, round)
		if err != nil {
			return nil, err
		}
		first, second = append(first, f), append(second, s)
	}
	return []Row{
		row(firstRead, "MB/s", firstGoal, false, first),
		row(secondRead, "MB/s", secondGoal, false, second),
	}, nil
}

const (
	firstRead  = "payload of 128 MiB out through the mount / native, first read"
	secondRead = "payload of 128 MiB out through the mount / native, second read"
	firstGoal  = 0.50
	secondGoal = 0.95
)

// readTwice puts a payload and the same bytes as a file, and reads both twice:
// first with nothing cached, then cached.
func (d *served) readTwice(ctx context.Context, dir string, run control.Started, round uint64) (first, second pair, err error) {
	name := fmt.Sprintf("p%d", round)
	body := agentText(round)
	_, err = d.client.WithWriter(run.Writer).Put(ctx, run.Record.ID, name, "", repeated(body, outBytes))
	if err != nil {
		return first, second, err
	}
	native := filepath.Join(dir, name)
	if err := writeNative(native, body); err != nil {
		return first, second, err
	}
	defer os.Remove(native)
	if err := dropCache(dir); err != nil {
		return first, second, err
	}
	mounted := filepath.Join(d.Config().Mount, "runs", run.Record.ID, "payloads", name)
	for _, p := range []*pair{&first, &second} {
		if p.floor, err = readByProcess(ctx, native); err != nil {
			return first, second, err
		}
		if p.value, err = readByProcess(ctx, mounted); err != nil {
			return first, second, err
		}
	}
	return first, second, nil
}

func writeNative(name string, block []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ReadFrom(repeated(block, outBytes)); err != nil {
		return err
	}
	return f.Sync()
}

// dropCache makes the kernel forget what it has of the files below dir.
func dropCache(dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "mnt":
			return filepath.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// readByProcess reads a file with dd(1) and tells MB/s.
func readByProcess(ctx context.Context, name string) (float64, error) {
	begin := time.Now()
	out, err := exec.CommandContext(ctx, "dd", "if="+name, "of=/dev/null", "bs=128k").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("dd: %w: %s", err, out)
	}
	return mbPerSecond(outBytes, time.Since(begin)), nil
}
