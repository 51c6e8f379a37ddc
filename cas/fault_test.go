package cas

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"durafs/internal/vfs"
)

// faultOptions make packs roll within the workload.
func faultOptions(t testing.TB, l *fakeLedger, dir string, fsys vfs.FS) Options {
	o := options(t, l, dir)
	o.FS, o.PackBytesMax = fsys, 64<<10
	o.chunkBytes, o.nodeChildren = 4096, 4
	return o
}

// workload puts payloads and returns the acknowledged ones.
func workload(s *Store, acked map[ID]Ref, datas map[ID][]byte) error {
	var first error
	for i, n := range []int{20_000, 50_000, 30_000, 60_000, 17_000} {
		data := noise(uint64(100+i), n)
		ref, err := s.Put(ctx0, bytes.NewReader(data))
		if err == nil {
			acked[ref.ID], datas[ref.ID] = ref, data
		} else if first == nil {
			first = err
		}
	}
	return first
}

// One call fails, each in turn, in each way: what was acknowledged is there
// after the next open, and what a store says is consistent.
func TestEveryCallFails(t *testing.T) {
	ops := vfs.OpCreate | vfs.OpWrite | vfs.OpDatasync | vfs.OpDirSync | vfs.OpRename | vfs.OpTruncate | vfs.OpRemove | vfs.OpOpen | vfs.OpWriteBehind
	clean := vfs.NewFaulty(vfs.OS)
	l := &fakeLedger{}
	s := open(t, faultOptions(t, l, memDir(t), clean))
	if err := workload(s, map[ID]Ref{}, map[ID][]byte{}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	calls := clean.Count(ops)
	if calls < 30 {
		t.Fatalf("only %d calls", calls)
	}
	for e, errno := range []error{syscall.EIO, syscall.ENOSPC} {
		for m, mode := range vfs.Modes {
			// One way at every call, the others at every third, shifted.
			first, step := 1+(e+m)%3, 3
			if errno == syscall.EIO && mode == vfs.NotDone {
				first, step = 1, 1
			}
			t.Run(fmt.Sprint(errno, " ", mode), func(t *testing.T) {
				t.Parallel()
				for k := first; k <= calls; k += step {
					failOne(t, fmt.Sprint("call ", k), vfs.Fault{Ops: ops, Nth: k, Mode: mode, Err: errno})
				}
			})
		}
	}
}

func failOne(t *testing.T, name string, fault vfs.Fault) {
	t.Helper()
	fsys := vfs.NewFaulty(vfs.OS)
	l := &fakeLedger{}
	o := faultOptions(t, l, memDir(t), fsys)
	fsys.Inject(fault)
	s, _, err := Open(ctx0, o)
	if err != nil {
		return // nothing was promised
	}
	acked, datas := map[ID]Ref{}, map[ID][]byte{}
	err = workload(s, acked, datas)
	synced := true
	for _, c := range fsys.Fired() {
		if c.Op&vfs.OpSyncs != 0 {
			synced = false
		}
	}
	var full *NoSpaceError
	if err != nil && errors.Is(err, syscall.ENOSPC) && synced && !errors.As(err, &full) {
		t.Errorf("%s: %v is no *NoSpaceError", name, err)
	}
	for id, ref := range acked {
		if got, err := readAll(s, ref); err != nil || !bytes.Equal(got, datas[id]) {
			t.Errorf("%s: acknowledged and not readable: %v", name, err)
		}
	}
	fired := len(fsys.Fired()) > 0
	if synced { // it goes on by itself
		if err := workload(s, acked, datas); err != nil && fired && !errors.Is(err, ErrPoisoned) {
			t.Errorf("%s: second round: %v", name, err)
		}
	}
	closed := s.Close()
	for _, c := range fsys.Fired() {
		if c.Op&vfs.OpSyncs != 0 && !errors.Is(closed, ErrPoisoned) {
			t.Errorf("%s: a sync failed and the store closes with %v", name, closed)
		}
	}
	fsys.Clear()
	refs := make([]Ref, 0, len(acked))
	for _, r := range acked {
		refs = append(refs, r)
	}
	s, rec := reopen(t, o, refs...)
	if len(rec.Damage)+len(rec.Missing)+len(rec.Orphans) > 0 {
		t.Errorf("%s: recovery %+v", name, rec)
	}
	for id, ref := range acked {
		wantBytes(t, s, ref, datas[id])
	}
	if err := s.Close(); err != nil {
		t.Errorf("%s: close: %v", name, err)
	}
	for _, p := range l.packs {
		if !p.Sealed {
			t.Errorf("%s: pack %d is not sealed", name, p.Seq)
		}
	}
	if found := verify(t, o.Dir, l.packs, true); len(found) > 0 {
		t.Errorf("%s: verify: %v", name, found)
	}
}

// A full disk refuses what is put, and nothing else; when there is room again
// it goes on by itself.
func TestFullDisk(t *testing.T) {
	fsys := vfs.NewFaulty(vfs.OS)
	l := &fakeLedger{}
	s := open(t, faultOptions(t, l, memDir(t), fsys))
	before := mustPut(t, s, noise(1, 30_000))
	fsys.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpCreate, Nth: 2, Sticky: true, Mode: vfs.Half, Err: syscall.EDQUOT})
	for i := range 5 {
		_, err := s.Put(t.Context(), bytes.NewReader(noise(uint64(2+i), 30_000)))
		var full *NoSpaceError
		if !errors.As(err, &full) || full.Mount == "" || full.FreeBytes == 0 || !errors.Is(err, syscall.EDQUOT) {
			t.Fatalf("put %d on a full disk: %v", i, err)
		}
	}
	if err := s.Healthy(); err != nil {
		t.Errorf("a full disk is no poison: %v", err)
	}
	wantBytes(t, s, before, noise(1, 30_000))
	fsys.Clear()
	after := mustPut(t, s, noise(9, 30_000))
	wantBytes(t, s, after, noise(9, 30_000))
}

func TestFailedSyncPoisons(t *testing.T) {
	fsys := vfs.NewFaulty(vfs.OS)
	l := &fakeLedger{}
	o := faultOptions(t, l, memDir(t), fsys)
	s := open(t, o)
	before := mustPut(t, s, noise(1, 30_000))
	fsys.Inject(vfs.Fault{Ops: vfs.OpDatasync, Nth: 1, Err: syscall.EIO})
	for i := range 3 { // the sync would succeed when tried again
		if _, err := s.Put(t.Context(), bytes.NewReader(noise(2, 30_000))); !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("put %d: %v", i, err)
		}
	}
	if err := s.Healthy(); !errors.Is(err, ErrPoisoned) {
		t.Errorf("healthy: %v", err)
	}
	wantBytes(t, s, before, noise(1, 30_000))
	if small := mustPut(t, s, []byte("inline")); small.Inline == nil {
		t.Error("inline payloads need no pack")
	}
	if err := s.Close(); !errors.Is(err, ErrPoisoned) {
		t.Errorf("close: %v", err)
	}
	// What was put again must be written again, in another pack.
	s, _ = reopen(t, o, before)
	again := mustPut(t, s, noise(2, 30_000))
	if again.Hint.Pack == before.Hint.Pack {
		t.Errorf("put into a pack of the poisoned process: %v", again.Hint)
	}
	wantBytes(t, s, again, noise(2, 30_000))
}

func TestReaderErrorIsReturnedAsItIs(t *testing.T) {
	l := &fakeLedger{}
	s := open(t, options(t, l, memDir(t)))
	cause := errors.New("client went away")
	for _, n := range []int{0, 10, 20_000, 65536, 100_000, 3 << 20} {
		_, err := s.Put(t.Context(), io.MultiReader(bytes.NewReader(noise(1, n)), failing{cause}))
		if err != cause {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// An encoder that is wrong costs space and never the payload.
func TestWrongEncoder(t *testing.T) {
	real, err := newBodyCodec(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer real.close()
	for name, encode := range map[string]encodeFunc{
		"bit flipped": func(dst, src []byte) []byte {
			out := real.plain(dst, src)
			out[len(dst)+(len(out)-len(dst))/2] ^= 4
			return out
		},
		"other content": func(dst, src []byte) []byte { return real.plain(dst, text(77, len(src))) },
		"cut off":       func(dst, src []byte) []byte { out := real.plain(dst, src); return out[:len(out)-3] },
		"nothing":       func(dst, src []byte) []byte { return dst },
		"too much":      func(dst, src []byte) []byte { return append(dst, make([]byte, 3*len(src))...) },
	} {
		t.Run(name, func(t *testing.T) {
			l := &fakeLedger{}
			o := options(t, l, memDir(t))
			o.encode = encode
			s := open(t, o)
			for _, n := range []int{20_000, 65536, 500_000} {
				data := text(uint64(n), n)
				wantBytes(t, s, mustPut(t, s, data), data)
			}
		})
	}
}

// After a failed write nothing is written to that file again, not even a
// footer; and after a failed sync it is not synced again either.
func TestNothingIsWrittenAfterAFailure(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpDatasync} {
		dir := memDir(t)
		fsys := vfs.NewFaulty(vfs.OS)
		rec := vfs.NewRecorder(fsys, dir)
		s := open(t, faultOptions(t, &fakeLedger{}, dir, rec))
		mustPut(t, s, noise(1, 30_000))
		fsys.Inject(vfs.Fault{Ops: op, Nth: 2, Mode: vfs.Half, Err: syscall.EIO})
		for i := range 4 {
			_, _ = s.Put(t.Context(), bytes.NewReader(noise(uint64(2+i), 30_000)))
		}
		_ = s.Close()
		failed := ""
		for _, c := range rec.Calls() {
			switch {
			case c.Err != nil && c.Op == op:
				failed = c.Name
			case failed != "" && c.Name == failed && c.Op&(op|vfs.OpWrite) != 0:
				t.Errorf("after %v of %s failed: %v", op, failed, c)
			}
		}
		if failed == "" {
			t.Errorf("%v did not fail", op)
		}
	}
}
