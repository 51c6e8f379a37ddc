package cas

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"durafs/internal/vfs"
)

// One call fails while the store opens, each in turn: either it does not open,
// or what was acknowledged can be read; and the next open is as if nothing had
// been.
func TestEveryCallFailsAtOpen(t *testing.T) {
	l := &fakeLedger{}
	o := faultOptions(t, l, memDir(t), vfs.OS)
	s := open(t, o)
	s.opts.Ledger = &refusing{fakeLedger: l} // so that several packs stay open
	acked, datas := map[ID]Ref{}, map[ID][]byte{}
	for i, n := range []int{20_000, 50_000, 30_000} {
		data := noise(uint64(300+i), n)
		ref := mustPut(t, s, data)
		acked[ref.ID], datas[ref.ID] = ref, data
	}
	mustPut(t, s, noise(400, 20_000)) // to be cut off
	kill(s)
	image := crashState{files: map[string][]byte{}, ledger: l.packs, high: l.high, acked: slices.Collect(maps.Values(acked))}
	names, _ := filepath.Glob(filepath.Join(o.Dir, "*"))
	for _, n := range names {
		image.files[filepath.Base(n)], _ = os.ReadFile(n)
	}
	if len(names) < 2 {
		t.Fatalf("packs: %v", names)
	}
	calls := image.openWith(t, datas, vfs.Fault{})
	if calls < 20 {
		t.Fatalf("only %d calls", calls)
	}
	for e, errno := range []error{syscall.EIO, syscall.ENOSPC} {
		for m, mode := range vfs.Modes {
			first, step := 1+(e+m)%3, 3
			if errno == syscall.EIO && mode == vfs.NotDone {
				first, step = 1, 1
			}
			for k := first; k <= calls; k += step {
				image.openWith(t, datas, vfs.Fault{Ops: vfs.OpAll, Nth: k, Mode: mode, Err: errno})
			}
		}
	}
}

func (st crashState) openWith(t *testing.T, datas map[ID][]byte, fault vfs.Fault) (calls int) {
	t.Helper()
	name := fmt.Sprintf("%v %v call %d", fault.Err, fault.Mode, fault.Nth)
	dir, l := st.lay(t)
	fsys := vfs.NewFaulty(vfs.OS)
	if fault.Err != nil {
		fsys.Inject(fault)
	}
	o := faultOptions(t, l, dir, fsys)
	o.Used = used(st.acked...)
	o.SeqAfter = l.high
	s, rec, err := Open(ctx0, o)
	calls = fsys.Count(vfs.OpAll)
	if err == nil {
		fsys.Clear()
		for _, ref := range st.acked {
			got, err := readAll(s, ref)
			var named *DamageError
			if errors.As(err, &named) && len(rec.Damage) > 0 {
				continue
			}
			if err != nil || !bytes.Equal(got, datas[ref.ID]) {
				t.Fatalf("%s: opened, and %v", name, err)
			}
		}
		s.Close()
	}
	fsys.Clear()
	s, rec = reopen(t, o, st.acked...)
	if len(rec.Damage)+len(rec.Missing)+len(rec.Orphans) > 0 {
		t.Fatalf("%s: recovery %+v", name, rec)
	}
	for _, ref := range st.acked {
		wantBytes(t, s, ref, datas[ref.ID])
	}
	if err := s.Close(); err != nil {
		t.Fatalf("%s: close: %v", name, err)
	}
	if found := verify(t, dir, l.packs, true); len(found) > 0 {
		t.Fatalf("%s: verify: %v", name, found)
	}
	return calls
}
