package fusefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"durafs/runs"
	"durafs/view"
	"durafs/view/viewtest"
)

// TestWholeMountHasExactSizes: every tool that trusts sizes can read all of it,
// without an error, and finds as many bytes as it was told.
func TestWholeMountHasExactSizes(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v)
	var told int64
	seen := map[string]int{}
	err := filepath.WalkDir(mnt, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := os.Stat(path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || int64(len(b)) != fi.Size() {
			t.Errorf("%s: %d bytes, %v; was told %d", path, len(b), err, fi.Size())
		}
		told += fi.Size()
		seen[filepath.Base(filepath.Dir(path))]++
		return nil
	})
	if err != nil || seen["tools"] != 300 || seen["journal"] != 1 || seen["trip %2F odd%25"] != 2 {
		t.Errorf("%v, %v", seen, err)
	}
	if got := strings.TrimSpace(run(t, "sh", "-c", "find "+mnt+" -type f -exec cat {} + | wc -c")); got != fmt.Sprint(told) {
		t.Errorf("cat gives %s bytes, and the sizes are %d together", got, told)
	}
	copies := t.TempDir()
	run(t, "sh", "-c", "tar -cf "+copies+"/all.tar -C "+mnt+" . && tar -df "+copies+"/all.tar -C "+mnt)
	if got := run(t, "grep", "-rlF", "turn 299", mnt); strings.Count(got, "\n") != 2 {
		t.Errorf("grep finds the last turn in %q", got)
	}
	run(t, "grep", "-rcF", "shown", mnt+"/runs")
}

// TestPhasesMove: a link that was looked at goes from one directory to the
// other when its run does, though the kernel remembers names.
func TestPhasesMove(t *testing.T) {
	s := viewtest.New(start)
	ref := s.Start(viewtest.ID(1))
	mnt, _ := mount(t, view.New(s, nil))
	was := ""
	for _, p := range []runs.Phase{runs.Running, runs.PausedInterruption, runs.Running, runs.Terminal} {
		s.Move(ref, p)
		link := filepath.Join(mnt, "by-phase", p.String(), viewtest.ID(1))
		eventually(t, 10*time.Second, "the link is in "+p.String(), func() bool {
			_, err := os.Stat(link + "/record")
			return err == nil
		})
		if was != "" && was != link {
			eventually(t, 10*time.Second, "the link is gone from "+was, func() bool {
				_, err := os.Lstat(was)
				return errors.Is(err, fs.ErrNotExist)
			})
			if names, err := os.ReadDir(filepath.Dir(was)); err != nil || len(names) != 0 {
				t.Errorf("%s lists %v, %v", was, names, err)
			}
		}
		was = link
	}
}

// TestNewEntriesAppear: threads, calls and journals that were not there when
// somebody asked are there when they came.
func TestNewEntriesAppear(t *testing.T) {
	s := viewtest.New(start)
	s.Enrol("master")
	ref := s.StartIn(viewtest.ID(1), "old")
	mnt, _ := mount(t, view.New(s, nil))
	paths := []string{"threads/new/text", "by-thread/new/" + viewtest.ID(2), "journal/agent:x", "runs/" + viewtest.ID(1) + "/tools/1"}
	for _, p := range paths {
		if _, err := os.Lstat(filepath.Join(mnt, p)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
	s.Post("new", "hello")
	s.StartIn(viewtest.ID(2), "new")
	s.Enrol("agent:x")
	s.Call(ref, "bash", `{}`, nil)
	for _, p := range paths {
		if _, err := os.Lstat(filepath.Join(mnt, p)); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestHistoryHandleIsOneMoment: an open history stays what it was; opened again
// it is what it is then. (What fstat says is of then: the kernel asks without the
// handle.)
func TestHistoryHandleIsOneMoment(t *testing.T) {
	s, v := sample()
	mnt, _ := mount(t, v)
	paths := []string{runDir(mnt, 3) + "/history", mnt + "/threads/trip %2F odd%25/json", mnt + "/journal/master", runDir(mnt, 3) + "/tools/300"}
	var files []*os.File
	var was [][]byte
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		files, was = append(files, f), append(was, b)
	}
	s.Call(3, "bash", `{"more":true}`, nil)
	s.Post("trip / odd%", "one more")
	s.Note("master", `{"type":"end"}`)
	for i, f := range files {
		b := make([]byte, len(was[i])+4096)
		n, err := f.ReadAt(b, 0)
		if err != io.EOF || !bytes.Equal(b[:n], was[i]) {
			t.Errorf("%s: %d bytes, %v; had %d", paths[i], n, err, len(was[i]))
		}
		if now, err := os.ReadFile(paths[i]); err != nil || len(now) <= len(was[i]) && i < 3 {
			t.Errorf("%s: opened again %d bytes, %v; had %d", paths[i], len(now), err, len(was[i]))
		}
	}
}

// TestManyRunsInAPhase lists 100,000 links, and finds one among them.
func TestManyRunsInAPhase(t *testing.T) {
	const many = 100_000
	s := viewtest.New(start)
	for i := range many {
		s.Move(s.Start(viewtest.ID(i)), runs.Terminal)
	}
	mnt, _ := mount(t, view.New(s, nil))
	dir := mnt + "/by-phase/terminal"
	if got := strings.TrimSpace(run(t, "sh", "-c", "ls -U "+dir+" | sort -u | wc -l")); got != fmt.Sprint(many) {
		t.Errorf("ls shows %s names", got)
	}
	if got := strings.TrimSpace(run(t, "readlink", dir+"/"+viewtest.ID(many/2))); got != "../../runs/"+viewtest.ID(many/2) {
		t.Errorf("a link leads to %s", got)
	}
	if got := run(t, "sh", "-c", "ls "+mnt+"/by-phase/running | wc -l"); strings.TrimSpace(got) != "0" {
		t.Errorf("%s runs are running", got)
	}
}

// TestLongHistoryIsReadInPieces: 40 MB of history through the mount leave less
// than 8 MiB on the heap.
func TestLongHistoryIsReadInPieces(t *testing.T) {
	v := view.New(long{viewtest.New(start)}, nil)
	mnt, _ := mount(t, v)
	f, err := os.Open(mnt + "/runs/" + viewtest.ID(1) + "/history")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runtime.GC()
	before, most := heap(), uint64(0)
	var n, lines int
	for buf := make([]byte, 256<<10); ; {
		got, err := f.Read(buf)
		n, lines = n+got, lines+bytes.Count(buf[:got], []byte("\n"))
		if n>>22 != (n-got)>>22 {
			runtime.GC()
			most = max(most, heap())
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if lines != longCalls || n != longCalls*(longLine+1) {
		t.Errorf("%d lines, %d bytes", lines, n)
	}
	if most > before+8<<20 {
		t.Errorf("the heap went from %d to %d bytes", before, most)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// long is a store whose only run has a long history, made as it is asked for.
type long struct{ *viewtest.Store }

const (
	longCalls = 10_000
	longLine  = 4000
)

func (l long) Lookup(id string) (runs.Ref, bool) { return 1, id == viewtest.ID(1) }
func (l long) Newest() runs.Ref                  { return 1 }
func (l long) Info(ref runs.Ref) (runs.Run, bool) {
	return runs.Run{Ref: 1, ID: viewtest.ID(1), Phase: runs.Terminal, StartedAt: start, ChangedAt: start}, ref == 1
}
func (l long) OpenHistory(runs.Ref) (runs.HistoryLines, error) { return longLines{}, nil }

type longLines struct{}

func (longLines) Len() int { return longCalls }
func (longLines) Append(dst []byte, i int) ([]byte, error) {
	return append(fmt.Appendf(dst, "%08d%s", i, strings.Repeat("h", longLine-8)), '\n'), nil
}
