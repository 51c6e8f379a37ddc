package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// callAll makes each call of the interface once and returns the errors by op.
// What could not be opened is not called further.
func callAll(fsys FS, dir string) map[Op]error {
	errs := map[Op]error{}
	name := dir + "/f"
	p := make([]byte, 8)
	useFile := func(f File) {
		_, errs[OpWrite] = f.WriteAt([]byte("12345678"), 0)
		errs[OpWriteBehind] = f.WriteBehind(0, 8)
		errs[OpDatasync] = f.Datasync()
		_, errs[OpRead] = f.ReadAt(p, 0)
		_, errs[OpReadUncached] = f.ReadUncachedAt(p, 0)
		_, errs[OpSize] = f.Size()
		errs[OpTruncate] = f.Truncate(4)
		errs[OpClose] = f.Close()
	}
	var f File
	if f, errs[OpCreate] = fsys.Create(name); f != nil {
		useFile(f)
	}
	if f, errs[OpOpen] = fsys.Open(name); f != nil {
		f.Close()
	}
	if f, errs[OpOpenWrite] = fsys.OpenWrite(name); f != nil {
		f.Close()
	}
	var d Dir
	if d, errs[OpOpenDir] = fsys.OpenDir(dir); d != nil {
		errs[OpDirSync] = d.Sync()
		errs[OpDirClose] = d.Close()
	}
	errs[OpMkdir] = fsys.Mkdir(dir + "/d")
	_, errs[OpReadDir] = fsys.ReadDir(dir)
	_, errs[OpStat] = fsys.Stat(dir)
	_, errs[OpUsage] = fsys.Usage(dir)
	errs[OpRename] = fsys.Rename(name, dir+"/g")
	errs[OpRemove] = fsys.Remove(dir + "/g")
	return errs
}

func eachOp(fn func(Op)) {
	for op := Op(1); op < opEnd; op <<= 1 {
		fn(op)
	}
}

// The hook sees every method that the interfaces have: a new method without an
// op, or one that does not pass the hook, is found here.
func TestEveryMethodPassesTheHook(t *testing.T) {
	methods := 0
	for _, typ := range []reflect.Type{reflect.TypeFor[FS](), reflect.TypeFor[File](), reflect.TypeFor[Dir]()} {
		methods += typ.NumMethod()
	}
	if ops := len(opNames); methods-1 != ops { // File.Name makes no call
		t.Errorf("%d methods (without Name) and %d ops", methods-1, ops)
	}
	seen := Op(0)
	fsys := Hooked(OS, func(c Call, do func(int64) error) error {
		seen |= c.Op
		return do(Whole)
	})
	for op, err := range callAll(fsys, t.TempDir()) {
		if err != nil && err != io.EOF {
			t.Errorf("%v: %v", op, err)
		}
	}
	if seen != OpAll {
		t.Errorf("the hook did not see %v", OpAll&^seen)
	}
}

func TestFaultHitsItsOpOnly(t *testing.T) {
	eachOp(func(op Op) {
		for _, mode := range Modes {
			t.Run(fmt.Sprintf("%v %v", op, mode), func(t *testing.T) {
				fsys := NewFaulty(OS)
				fsys.Inject(Fault{Ops: op, Nth: 1, Err: syscall.EIO, Mode: mode})
				got := callAll(fsys, t.TempDir())[op]
				var pe *fs.PathError
				if !errors.Is(got, syscall.EIO) || !errors.As(got, &pe) {
					t.Errorf("error %v, want EIO in a PathError", got)
				}
				fired := fsys.Fired()
				if len(fired) != 1 || fired[0].Op != op {
					t.Errorf("fired %v, want one %v", fired, op)
				}
			})
		}
	})
}

func TestFaultModesOfAWrite(t *testing.T) {
	for mode, want := range map[Mode]string{NotDone: "", Done: "12345678", Half: "1234"} {
		dir := t.TempDir()
		fsys := NewFaulty(OS)
		f, err := fsys.Create(dir + "/f")
		if err != nil {
			t.Fatal(err)
		}
		fsys.Inject(Fault{Ops: OpWrite, Nth: 1, Err: syscall.ENOSPC, Mode: mode})
		n, err := f.WriteAt([]byte("12345678"), 0)
		if !errors.Is(err, syscall.ENOSPC) || n != len(want) {
			t.Errorf("%v: WriteAt = %d, %v, want %d, ENOSPC", mode, n, err, len(want))
		}
		p := make([]byte, 20)
		n, _ = f.ReadAt(p, 0)
		if string(p[:n]) != want {
			t.Errorf("%v: the file holds %q, want %q", mode, p[:n], want)
		}
		if n, err := f.WriteAt([]byte("next"), 0); n != 4 || err != nil {
			t.Errorf("%v: the write after = %d, %v", mode, n, err)
		}
		f.Close()
	}
}

func TestFaultModesOfNames(t *testing.T) {
	for _, mode := range Modes {
		dir := t.TempDir()
		fsys := NewFaulty(OS)
		fsys.Inject(Fault{Ops: OpMkdir | OpCreate, Nth: 1, Sticky: true, Err: syscall.EIO, Mode: mode})
		_, err1 := fsys.Create(dir + "/f")
		err2 := fsys.Mkdir(dir + "/d")
		if !errors.Is(err1, syscall.EIO) || !errors.Is(err2, syscall.EIO) {
			t.Errorf("%v: errors %v, %v", mode, err1, err2)
		}
		names, err := OS.ReadDir(dir)
		if want := map[bool]int{true: 2, false: 0}[mode == Done]; err != nil || len(names) != want {
			t.Errorf("%v: %d names are there, want %d", mode, len(names), want)
		}
	}
}

func TestFaultNthStickyMatchClear(t *testing.T) {
	dir := t.TempDir()
	fsys := NewFaulty(OS)
	mkdirs := func(from, to int) (failed string) {
		for i := from; i < to; i++ {
			if fsys.Mkdir(fmt.Sprintf("%s/%d", dir, i)) != nil {
				failed += fmt.Sprint(i)
			}
		}
		return failed
	}
	fsys.Inject(Fault{Ops: OpMkdir, Nth: 3, Err: syscall.EIO})
	if got := mkdirs(0, 5); got != "2" {
		t.Errorf("the third call fails: %q failed", got)
	}
	fsys.Inject(Fault{Ops: OpMkdir, Nth: 2, Sticky: true, Err: syscall.ENOSPC})
	if got := mkdirs(5, 8); got != "67" {
		t.Errorf("from the second call on: %q failed", got)
	}
	fsys.Clear()
	fsys.Inject(Fault{Ops: OpAll, Nth: 1, Err: syscall.EIO, Match: func(c Call) bool {
		return filepath.Base(c.Name) == "9"
	}})
	if got := mkdirs(8, 11); got != "9" {
		t.Errorf("the call that matches: %q failed", got)
	}
	if n := fsys.Count(OpMkdir); n != 11 {
		t.Errorf("Count = %d, want 11", n)
	}
	if n := fsys.Count(OpWrite | OpSyncs); n != 0 {
		t.Errorf("Count of calls that were not made = %d", n)
	}
}

func TestFaultThatCannotFirePanics(t *testing.T) {
	for _, f := range []Fault{{Ops: OpWrite, Err: io.EOF}, {Ops: OpWrite, Nth: 1}, {Nth: 1, Err: io.EOF}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Inject(%+v) did not panic", f)
				}
			}()
			NewFaulty(OS).Inject(f)
		}()
	}
}

// A failed close gives the descriptor back all the same, and a failed open of
// a file that was opened leaves none behind.
func TestFaultsLeakNoDescriptor(t *testing.T) {
	count := func() int {
		names, err := OS.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := count()
	for _, mode := range Modes {
		for _, op := range []Op{OpCreate, OpOpen, OpOpenWrite, OpOpenDir, OpClose, OpDirClose} {
			fsys := NewFaulty(OS)
			fsys.Inject(Fault{Ops: op, Nth: 1, Err: syscall.EIO, Mode: mode})
			callAll(fsys, t.TempDir())
		}
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

func TestRecorder(t *testing.T) {
	dir := t.TempDir()
	faulty := NewFaulty(OS)
	r := NewRecorder(faulty, dir)
	faulty.Inject(Fault{Ops: OpDirSync, Nth: 1, Err: syscall.EIO})
	callAll(r, dir)
	got := r.String()
	for _, line := range []string{
		"create f", "write f 0+8", "writebehind f 0+8", "datasync f", "read f 0+8",
		"readuncached f 0+8", "truncate f 4", "close f", "opendir .",
		"dirsync .: input/output error", "mkdir d", "rename f -> g", "remove g",
	} {
		if !strings.Contains("\n"+got, "\n"+line+"\n") {
			t.Errorf("no line %q in:\n%s", line, got)
		}
	}
	if n := len(r.Calls()); n != strings.Count(got, "\n") || n < 20 {
		t.Errorf("%d calls, %d lines", n, strings.Count(got, "\n"))
	}
	r.Reset()
	if r.String() != "" {
		t.Errorf("after Reset: %s", r)
	}
}

func TestRecorderOrder(t *testing.T) {
	dir := t.TempDir()
	r := NewRecorder(OS, dir)
	f, err := r.Create(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteAt([]byte("x"), 0)
	f.Datasync()
	r.Rename(dir+"/f", dir+"/g")

	write, datasync, rename := Pattern{OpWrite, "f"}, Pattern{OpDatasync, ""}, Pattern{OpRename, "g"}
	if err := r.InOrder(write, datasync, rename); err != nil {
		t.Error(err)
	}
	if err := r.InOrder(datasync, write); err == nil || !strings.Contains(err.Error(), "step 2, write f") {
		t.Errorf("the wrong order: %v", err)
	}
	if err := r.Precedes(datasync, rename); err != nil {
		t.Error(err)
	}
	if err := r.Precedes(rename, datasync); err == nil {
		t.Error("Precedes holds the wrong way round")
	}
	if err := r.Precedes(datasync, Pattern{OpRemove, ""}); err == nil {
		t.Error("Precedes holds for calls that are not there")
	}
	// The name is f's still, as the file knows it: one early sync does not vouch
	// for a later write.
	f.WriteAt([]byte("y"), 1)
	if err := r.InOrder(datasync, write, datasync); err == nil {
		t.Error("InOrder counts one call for two steps")
	}
}

// Calls that overlap in time are in no order: neither was over before the
// other began.
func TestRecorderKnowsOverlap(t *testing.T) {
	dir := t.TempDir()
	inWrite, release := make(chan struct{}), make(chan struct{})
	r := NewRecorder(Hooked(OS, func(c Call, do func(int64) error) error {
		if c.Op == OpWrite {
			close(inWrite)
			<-release
		}
		return do(Whole)
	}), dir)
	f, err := r.Create(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan error)
	go func() {
		_, err := f.WriteAt([]byte("x"), 0)
		done <- err
	}()
	<-inWrite
	f.Datasync()
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	write, datasync := Pattern{OpWrite, ""}, Pattern{OpDatasync, ""}
	if r.InOrder(write, datasync) == nil || r.InOrder(datasync, write) == nil {
		t.Errorf("overlapping calls were put in order:\n%s", r)
	}
}
