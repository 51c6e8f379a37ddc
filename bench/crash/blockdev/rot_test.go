package blockdev_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"durafs/internal/vfs/simdisk"
	"durafs/runs"
	"durafs/store"
	"durafs/wal"
)

const (
	// rotSteps and rotAcked are how much each agent would do, and after how many
	// acknowledgements the process is killed, at least.
	rotSteps, rotAcked = 56, 70
	// rotStates is how many damages are judged in a usual run.
	rotStates = 300
	// rotStatesShort is that many where tests are to be short.
	rotStatesShort = 12
	rotBits        = 3
	// lastAcks of what was acknowledged are not looked at: a kill and rot in the
	// last group cannot be told apart, and behind what is looked at there are
	// several blocks.
	lastAcks = 10
)

// TestRotAfterKill kills a process in the middle of its work with SIGKILL, takes
// the files as they are, and lets them rot, in one place each time. What was
// acknowledged is there, or it is named whose it was, or that nobody knows; what
// is shown is right. That is L7 for a store whose process neither closed it nor
// came to rest: with a tail, segments that wait to be sealed, packs in use.
func TestRotAfterKill(t *testing.T) {
	began := time.Now()
	total, named := 0, int64(0)
	for life := uint64(0); life == 0 || time.Now().Before(until(began)); life++ {
		states := rotStates
		if testing.Short() {
			states = rotStatesShort
		}
		k, err := killLife(t, 0, rand.New(rand.NewPCG(*seed, life)), states)
		if err != nil {
			t.Fatal(err)
		}
		total, named = total+int(k.judged.Load()), named+k.named.Load()
	}
	took := time.Since(began)
	t.Logf("%d damages judged in %v, %.0f a second; %d took something away, and were named", total, took.Round(time.Millisecond), float64(total)/took.Seconds(), named)
	if named == 0 {
		t.Error("no damage has taken anything away")
	}
}

// killLife leads a life with a planted fault, if any, ends it with a kill, and
// lets what is left rot in so many ways.
func killLife(t *testing.T, planted int, rng *rand.Rand, states int) (*killed, error) {
	t.Helper()
	m := &machine{t: t, mnt: memoryDir(t), plant: planted}
	p := m.start("a", rotSteps)
	after := rotAcked + rng.IntN(2*agents*rotSteps/3-rotAcked/2)
	if testing.Short() {
		after = rotAcked / 2
	}
	_, err := p.listen(func(msg message) {
		if msg.Op == opAcked && p.acks == after {
			p.kill()
		}
	})
	k := &killed{m: m}
	if p.acks < after {
		return k, err
	}
	if err == nil {
		t.Fatalf("%d were acknowledged and it was not killed", p.acks)
	}
	k.disk = diskOf(t, m.mnt)
	return k, k.rot(rng, states)
}

// memoryDir is a directory in memory, where there is one.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "durafs-killed-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// diskOf is a simulated disk with the files of a directory.
func diskOf(t *testing.T, dir string) *simdisk.Disk {
	t.Helper()
	disk := simdisk.New(simdisk.Options{})
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		to := strings.TrimPrefix(name, dir)
		if err != nil || to == "" {
			return err
		}
		if d.IsDir() {
			return disk.Mkdir(to)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := disk.Create(to)
		if err == nil {
			_, err = f.WriteAt(b, 0)
		}
		if err == nil && len(b) == 0 {
			err = f.Truncate(0)
		}
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

// killed is a store whose process was killed.
type killed struct {
	m    *machine
	disk *simdisk.Disk
	// judged counts the damages, and named those that took something away.
	judged, named atomic.Int64
}

// rot lets it rot in n ways, drawn from all, and judges each.
func (k *killed) rot(rng *rand.Rand, n int) error {
	if err := k.judge(k.disk.Clone(), true); err != nil {
		return fmt.Errorf("without any damage: %w", err)
	}
	all := slices.Collect(k.disk.Damages(rng.Uint64(), rotBits))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var failed atomic.Bool
	for _, d := range all[:min(n, len(all))] {
		group.Go(func() error {
			if failed.Load() {
				return nil
			}
			k.judged.Add(1)
			disk := k.disk.Clone()
			disk.Damage(d)
			err := k.judge(disk, false)
			if err != nil {
				failed.Store(true)
				err = fmt.Errorf("seed %d, killed after %d acknowledgements; %v: %w", *seed, len(k.m.promises), d, err)
			}
			return err
		})
	}
	return group.Wait()
}

// judge opens what is left. whole says that nothing has rotted.
func (k *killed) judge(disk *simdisk.Disk, whole bool) error {
	ctx := context.Background()
	o := storeOptions()
	o.FS = disk
	o.Lock = func(string) (io.Closer, error) { return io.NopCloser(nil), nil }
	s, err := store.Open(ctx, "/store", o)
	if err != nil {
		var inLog *wal.DamageError
		var config *store.ConfigError
		if !whole && (errors.As(err, &inLog) || errors.As(err, &config)) {
			return nil
		}
		return fmt.Errorf("open: %w", err)
	}
	defer func() {
		disk.Kill()
		s.Close(ctx)
	}()
	seen, err := survey(s, k.m.tried)
	if err != nil {
		return err
	}
	missing := false
	acked := k.m.promises
	for _, p := range acked[:max(0, len(acked)-lastAcks)] {
		if seen.there[p.key] {
			continue
		}
		_, run, _ := ofKey(p.key)
		if missing = true; whole || !seen.names(s, run) {
			return fmt.Errorf("%s was acknowledged and is gone, and nothing says so: %+v", p.key, s.Recovery())
		}
	}
	if missing {
		k.named.Add(1)
	}
	return nil
}

// surveyed is what a store shows of what was tried, and of which runs something
// could not be read.
type surveyed struct {
	there   map[string]bool
	unread  map[string]bool
	runless map[string]bool // runs that are not there at all
}

// names reports whether it is said that something of the run is lost, or that
// nobody knows of whom.
func (v *surveyed) names(s *store.Store, run string) bool {
	if s.Healthy() != nil || v.unread[run] {
		return true
	}
	if d := s.Runs().Damage(); v.runless[run] {
		return d.Unnamed > 0 || d.AnyRun
	}
	ref, _ := s.Runs().Lookup(run)
	info, _ := s.Runs().Info(ref)
	return info.Damaged
}

// survey is look for a store that has rotted: what cannot be read is noted, and
// what is shown and was never given is an error.
func survey(s *store.Store, tried []string) (*surveyed, error) {
	v := &surveyed{there: map[string]bool{}, unread: map[string]bool{}, runless: map[string]bool{}}
	for _, key := range tried {
		what, run, _ := ofKey(key)
		if what != "start" {
			continue
		}
		ref, ok := s.Runs().Lookup(run)
		if !ok {
			v.runless[run] = true
			continue
		}
		v.there[key] = true
		if err := v.run(s, ref, run, tried); err != nil {
			return nil, fmt.Errorf("%s: %w", run, err)
		}
	}
	return v, nil
}

func (v *surveyed) run(s *store.Store, ref runs.Ref, run string, tried []string) error {
	info, _ := s.Runs().Info(ref)
	log := make([]byte, info.LogBytes)
	n, err := s.Runs().ReadLogAt(ref, log, 0)
	if n < len(log) {
		v.unread[run] = true
	} else if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("all of the log is read, and then: %w", err)
	}
	var rows []string
	for line := range strings.Lines(string(log[:n])) {
		if strings.HasSuffix(line, "\n") && !strings.Contains(line, `"by":"store"`) {
			rows = append(rows, line)
		}
	}
	for _, key := range tried {
		what, of, name := ofKey(key)
		if of != run {
			continue
		}
		is := v.there[key]
		switch what {
		case "row":
			if is = len(rows) > 0 && strings.Contains(rows[0], rowOf(run, name)[1:]); is {
				rows = rows[1:]
			}
		case "put":
			var wrong *wrongBytes
			if is, err = hasPayload(s, ref, run, name); errors.As(err, &wrong) {
				return err
			} else if err != nil {
				v.unread[run] = true
			}
		case "end":
			if rec, err := s.Runs().Record(ref); err != nil {
				v.unread[run] = true
			} else {
				is = rec.Terminal != nil
			}
		}
		v.there[key] = is
	}
	if len(rows) > 0 {
		return fmt.Errorf("a row nobody gave, or out of order: %.100s", rows[0])
	}
	return nil
}
