package crash

import (
	"fmt"
	"io"
	"syscall"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
)

// fault is one way in which one call fails.
type fault struct {
	name string
	// n is the number of the call.
	n    int
	call vfs.Call
	how  simdisk.Fault
	// sticky lets every later call fail too: a disk that is gone.
	sticky bool
}

func (f *fault) String() string { return fmt.Sprintf("call %d, %v: %s", f.n, f.call, f.name) }

// syncOnce says that a sync fails, and what follows does not.
func (f *fault) syncOnce() bool {
	return f.call.Op&vfs.OpSyncs != 0 && f.how.Err == syscall.EIO && !f.sticky
}

// faultsOf are the ways in which a call can fail.
func faultsOf(n int, c vfs.Call, seed uint64) []fault {
	var all []fault
	add := func(name string, how simdisk.Fault) {
		all = append(all, fault{name: name, n: n, call: c, how: how})
	}
	switch {
	case c.Op == vfs.OpWrite:
		for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EINTR} {
			add(err.Error()+", nothing written", simdisk.Fault{Err: err})
			add(err.Error()+", half written", simdisk.Fault{Err: err, Bytes: c.Len / 2})
		}
		add("input/output error, all written", simdisk.Fault{Err: syscall.EIO, Done: true})
		add("a short write", simdisk.Fault{Err: io.ErrShortWrite, Bytes: c.Len - 1})
	case c.Op&vfs.OpSyncs != 0:
		for _, k := range []struct {
			name string
			keep simdisk.Keep
		}{
			{"nothing kept", simdisk.Keep{}},
			{"all kept", simdisk.Keep{Kind: simdisk.KeepAll}},
			{"sizes kept", simdisk.Keep{Kind: simdisk.KeepSize}},
			{"some kept", simdisk.Keep{Kind: simdisk.KeepMix, Seed: seed + uint64(n)}},
			{"other kept", simdisk.Keep{Kind: simdisk.KeepMix, Seed: seed + uint64(n)<<20}},
		} {
			add("input/output error once, "+k.name, simdisk.Fault{Err: syscall.EIO, Keep: k.keep})
		}
		add("no space at a sync, some kept", simdisk.Fault{Err: syscall.ENOSPC, Keep: simdisk.Keep{Kind: simdisk.KeepMix, Seed: seed}})
		add("quota at a sync, nothing kept", simdisk.Fault{Err: syscall.EDQUOT})
	case c.Op&vfs.OpChanges != 0:
		for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EINTR} {
			add(err.Error(), simdisk.Fault{Err: err})
		}
		add("input/output error, done all the same", simdisk.Fault{Err: syscall.EIO, Done: true})
	case c.Op&(vfs.OpRead|vfs.OpReadUncached) != 0:
		add("input/output error", simdisk.Fault{Err: syscall.EIO})
		add("input/output error behind the half", simdisk.Fault{Err: syscall.EIO, Bytes: c.Len / 2})
	default:
		add("input/output error", simdisk.Fault{Err: syscall.EIO})
	}
	if c.Op&(vfs.OpChanges|vfs.OpSyncs) != 0 {
		all = append(all, fault{name: "the disk is gone from here on", n: n, call: c, how: simdisk.Fault{Err: syscall.EIO}, sticky: true})
	}
	return all
}

// inject lets the call fail.
func (f *fault) inject(d *simdisk.Disk) {
	d.SetFault(func(n int, c vfs.Call) *simdisk.Fault {
		if n == f.n && c.Op == f.call.Op || f.sticky && n > f.n {
			how := f.how
			return &how
		}
		return nil
	})
}
