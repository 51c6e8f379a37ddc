package cas

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
)

// One call fails while the store opens, each in turn: either it does not open,
// or what was acknowledged can be read; and the next open is as if nothing had
// been.
func TestEveryCallFailsAtOpen(t *testing.T) {
	disk, l := simdisk.New(simdisk.Options{}), &fakeLedger{}
	s := open(t, faultOptions(t, l, "/", disk))
	s.opts.Ledger = &refusing{fakeLedger: l} // so that several packs stay open
	acked, datas := []Ref{}, map[ID][]byte{}
	for i, n := range []int{20_000, 50_000, 30_000} {
		data := noise(uint64(300+i), n)
		ref := mustPut(t, s, data)
		acked, datas[ref.ID] = append(acked, ref), data
	}
	mustPut(t, s, noise(400, 20_000)) // to be cut off
	kill(s)
	image := left{disk, l.packs, l.high, acked}
	if names, err := disk.ReadDir("/"); err != nil || len(names) < 2 {
		t.Fatalf("packs: %v, %v", names, err)
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

// openWith opens a copy of what is left with a fault, and then without.
func (c *left) openWith(t *testing.T, datas map[ID][]byte, fault vfs.Fault) (calls int) {
	t.Helper()
	name := fmt.Sprintf("%v %v call %d", fault.Err, fault.Mode, fault.Nth)
	disk, l := c.disk.Clone(), c.ledger()
	fsys := vfs.NewFaulty(disk)
	if fault.Err != nil {
		fsys.Inject(fault)
	}
	o := faultOptions(t, l, "/", fsys)
	o.Used, o.SeqAfter = used(c.acked...), l.high
	s, rec, err := Open(ctx0, o)
	calls = fsys.Count(vfs.OpAll)
	if err == nil {
		fsys.Clear()
		for _, ref := range c.acked {
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
	s, rec = reopen(t, o, c.acked...)
	if len(rec.Damage)+len(rec.Missing)+len(rec.Orphans) > 0 {
		t.Fatalf("%s: recovery %+v", name, rec)
	}
	for _, ref := range c.acked {
		wantBytes(t, s, ref, datas[ref.ID])
	}
	if err := s.Close(); err != nil {
		t.Fatalf("%s: close: %v", name, err)
	}
	_, err = Verify(ctx0, disk, "/", l.packs, true, nil, func(f Finding) { t.Fatalf("%s: verify: %v", name, f) })
	if err != nil {
		t.Fatalf("%s: verify: %v", name, err)
	}
	return calls
}
