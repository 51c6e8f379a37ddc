// Package blockdev is a block device that remembers, and every power cut that
// it could meet.
//
// # The idea
//
// A simulated disk (internal/vfs/simdisk) knows what POSIX allows; what a real
// kernel and a real file system make of a program's calls it does not know. So
// a Device is a disk image in memory that the kernel itself uses: it is served
// through FUSE as a file, a loop device stands on that file, and a file system
// is made and mounted on the loop device. Each write and each flush of the block
// layer arrives here, in order, and is recorded:
//
//	program ─► ext4 ─► /dev/loopN ─► image (FUSE) ─► Device
//
// The program runs in another process, for one that waits for its own answers
// may wait for ever. Between the kernel's events stand Notes, of what the
// program acknowledged.
//
// # What a power cut leaves
//
// All that was written before the last flush, and of what came after it, block
// by block (4 KiB), any version that the block had since: lost, reordered and
// torn writes. Cuts goes through a record and gives such images. A Stage shows
// them, one after the other, on a loop device of its own, where the kernel
// mounts them and recovers its journal as after any power cut.
//
// # Errors
//
// SetFault decides of each write and flush whether it fails, and whether it is
// done all the same. What the kernel does then is its own affair, and worth
// seeing: after a write that failed it reports the error once, counts the page
// as clean, and shows what the device does not have.
//
// All of it needs root, /dev/fuse and loop devices. It knows nothing of what is
// stored. Who uses it closes in the reverse order: unmount, then Detach or
// Stage.Close, then Device.Close; each can be called on what failed halfway.
package blockdev

import (
	"errors"
	"maps"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Kind is what an event is.
type Kind uint8

// The kinds of event.
const (
	Write Kind = iota + 1
	Flush
	Note
)

// Event is something that happened to a device.
type Event struct {
	Kind Kind
	// Off and Data are of a Write. Data is never changed.
	Off  int64
	Data []byte
	// Text is of a Note.
	Text string
	// Err is how a write or flush failed; Done says that it was made all the
	// same.
	Err  error
	Done bool
}

// Fault is how a write or flush fails.
type Fault struct {
	// Err is what the kernel is told: a syscall.Errno.
	Err error
	// Done makes it all the same.
	Done bool
}

// Device is a disk image that is served as a file and records what happens to
// it. Its methods may be called concurrently.
type Device struct {
	dir    string // where it is served
	server *fuse.Server
	served chan struct{} // closed when the kernel has let go

	// mu guards everything below.
	mu    sync.Mutex
	base  Image
	now   Image
	log   []Event
	fault func(n int, e Event) *Fault
	asked int // times that fault was called
}

// SetFault calls fn before each write and flush, with their number since
// SetFault; what it returns, if not nil, is how that fails. fn is called under
// the device's lock, and must not use it. nil takes it away.
func (d *Device) SetFault(fn func(n int, e Event) *Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.asked = fn, 0
}

// Note records a text behind all that happened so far.
func (d *Device) Note(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, Event{Kind: Note, Text: text})
}

// Events counts what was recorded so far.
func (d *Device) Events() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

// Record is what happened so far. It does not change any more.
func (d *Device) Record() Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Record{base: d.base, Events: d.log[:len(d.log):len(d.log)]}
}

var errOutside = errors.New("blockdev: outside of the device")

// happens makes a write or flush, or lets it fail. e.Data is the device's from
// here on.
func (d *Device) happens(e Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Off < 0 || e.Off+int64(len(e.Data)) > d.now.Size {
		return errOutside
	}
	e.Done = true
	if d.fault != nil {
		if f := d.fault(d.asked, e); f != nil {
			e.Err, e.Done = f.Err, f.Done
		}
		d.asked++
	}
	if e.Kind == Write && e.Done {
		d.now.write(e.Off, e.Data)
	}
	d.log = append(d.log, e)
	return e.Err
}

func (d *Device) read(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if off < 0 || off > d.now.Size {
		return 0, errOutside
	}
	p = p[:min(int64(len(p)), d.now.Size-off)]
	d.now.read(p, off)
	return len(p), nil
}

func newDevice(base Image) *Device {
	return &Device{base: base, now: Image{Size: base.Size, blocks: maps.Clone(base.blocks)}, served: make(chan struct{})}
}
