package simdisk

import (
	"errors"
	"io/fs"

	"durafs/internal/vfs"
)

// ErrKilled is what a process gets that was killed: it will not come to look.
var ErrKilled = errors.New("simdisk: the process was killed")

// Fault is how a call fails.
type Fault struct {
	// Err is what the call returns, wrapped in *fs.PathError.
	Err error
	// Done makes the call all the same: its answer was lost.
	Done bool
	// Bytes of a read or write are done, where Done is false.
	Bytes int64
	// Keep decides what the device has after a sync that failed.
	Keep Keep
}

// Keep decides what of the pending changes a failed sync wrote. The page cache
// shows them all, and counts as clean.
type Keep struct {
	Kind KeepKind
	Seed uint64 // of KeepMix
}

// KeepKind is how Keep decides.
type KeepKind uint8

const (
	KeepNone KeepKind = iota // nothing was written
	KeepAll                  // everything was written: failed, but persisted
	KeepSize                 // only the size, with zeros behind the old one
	KeepMix                  // each sector and the size, and the first names, by Seed
)

// SetFault calls fn before each call, of any kind, with the number of the call;
// what it returns, if not nil, is how the call fails. fn is called under the
// disk's lock: it must not use the disk. nil takes it away.
func (d *Disk) SetFault(fn func(n int, c vfs.Call) *Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fn
}

// begin counts a call and tells how it fails, if it does. d.mu is held.
func (d *Disk) begin(c vfs.Call) *Fault {
	n := d.calls
	d.calls++
	if d.killed {
		return &Fault{Err: ErrKilled}
	}
	full := d.fills(n, c)
	if d.fault == nil || full != nil {
		return full
	}
	return d.fault(n, c)
}

// fails is the error of a call that fails before it did anything, and whether
// it has to be made all the same.
func (f *Fault) fails(c vfs.Call) (err error, done bool) {
	if f == nil {
		return nil, true
	}
	return pathError(c, f.Err), f.Done
}

func pathError(c vfs.Call, err error) error {
	var pe *fs.PathError
	if err == nil || errors.As(err, &pe) {
		return err
	}
	return &fs.PathError{Op: c.Op.String(), Path: c.Name, Err: err}
}
