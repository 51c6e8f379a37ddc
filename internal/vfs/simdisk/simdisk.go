// Package simdisk is a disk in memory, and every power cut that it could meet.
//
// # The idea
//
// A program that keeps data safe is judged by what a disk may look like after
// the power went. A real disk shows one of the possibilities, a kind one at
// that. A Disk is a vfs.FS that knows all of them: it keeps, beside what a
// running process sees, what is durable for certain and every change since, and
// a Journal of the calls. An Explorer goes through the journal call by call and
// yields the states in which the disk may be found if the power goes there:
//
//	d := simdisk.New(simdisk.Options{})
//	j := d.Record()
//	work(d)                        // the program, for some calls
//	for s := range j.Explore(simdisk.Explore{}).States() {
//		check(s.Disk(), s.Calls)   // the program again, on what is left
//	}
//
// Recovery is a program too: record it on s.Disk() and explore that journal,
// and so on, as deep as you like.
//
// # What a power cut leaves
//
// The model is as strict as POSIX, which promises less than any file system in
// use does:
//
//   - Each 512-byte sector of a file holds any version that it had since the
//     file's last sync, each by itself: writes are lost, reordered and torn, but
//     a sector is old or new and never half.
//   - The size is any that the file had since. What lies within it and was
//     never written reads as zeros (with Options.Garbage as garbage).
//   - Each change of a name since its directory's sync is there or not, in any
//     subset: an unlink may stay where an earlier rename is lost. A rename is
//     one step: never neither name.
//   - A sync of a file says nothing of its name; to close a file says nothing.
//
// After a sync that failed (see Fault) the page cache counts as clean. It shows
// what the device may not have, each sector old or new as Fault.Keep decides
// there and then; the next sync answers success and writes nothing of it.
// ReadUncachedAt reads the device. Names are another matter: a file system with a
// journal does not forget a change of them, it makes it durable later or goes
// read-only (but see Options.ForgetNames). A process that is killed and started again
// (Disk.Kill, Disk.Restart) finds the page cache as it was.
//
// A disk may be full, from some call on (Options.CapacityBytes, Fill, FillFrom):
// what was allocated can be written again, and what is deleted gives its space
// back.
//
// # Which states are yielded
//
// All of them where they are few (Explore.ExhaustAtoms). Else, at every call:
// nothing of what is pending is there; everything; all but one change and only
// one, for each; everything up to each; every size; every subset of up to six
// changes of names, with no data, all data, and sizes without data; the first
// bytes of the last write, as a process that was killed in the middle of it
// leaves them; parts of the last write; and random mixes from a seed. A state
// that was seen before is not yielded again: states are told apart by a hash
// that is kept up to date sector by sector, so that a state costs a few hundred
// nanoseconds until somebody asks for its Disk.
//
// The disk knows nothing of what is stored on it. It is for tests: a content is
// kept until nothing refers to it, and nothing is ever written to a real disk.
package simdisk

import (
	"sync"

	"durafs/internal/vfs"
)

// SectorBytes is what a power cut leaves old or new as a whole.
const SectorBytes = 512

// BlockBytes is what space is counted in.
const BlockBytes = 4096

// Options of a disk. The zero value is a large, well-behaved one.
type Options struct {
	// CapacityBytes bounds what is allocated, 0: not. A write beyond it is made
	// as far as there is room, and answered with ENOSPC. Blocks that were
	// written before take no more space. The last ReservedBytes of it are only
	// for a process with Root.
	CapacityBytes, ReservedBytes int64
	Root                         bool
	// Garbage fills what lies within a file's size and was never made durable
	// with garbage instead of zeros: a file system that does not order data and
	// metadata.
	Garbage bool
	// ForgetNames lets a sync of a directory that fails forget, for good, the
	// changes of names that it did not keep, though a running process sees them:
	// a file system without a journal. Else a later sync that succeeds makes
	// them durable.
	ForgetNames bool
	// FSType is what Usage tells; 0 is ext4's.
	FSType int64
}

// Disk is a disk and the page cache over it. It is a vfs.FS, for concurrent
// use. Names are absolute paths; the root directory exists.
type Disk struct {
	// mu guards everything below.
	mu sync.Mutex
	core
	opts    Options
	fault   func(n int, c vfs.Call) *Fault
	calls   int // made, of any kind
	handles int // open files and directories
	killed  bool
	gen     int // counts restarts: handles of an earlier process are dead
	journal *Journal
	used    int64 // bytes of blocks that are allocated
	filling filling
	// forgetful says that hashes are not kept up; see Forgetful.
	forgetful bool
}

// New makes an empty disk.
func New(opts Options) *Disk {
	d := &Disk{opts: opts}
	d.core = core{track: true, garbage: opts.Garbage, forget: opts.ForgetNames}
	d.root = d.addNode(true)
	return d
}

// Calls counts the calls so far, of any kind; what SetFault is told.
func (d *Disk) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Handles counts the files and directories that are open.
func (d *Disk) Handles() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.handles
}

// Kill ends the process that uses the disk: from now on every call fails with
// ErrKilled and does nothing, but for those that close.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killed = true
}

// Restart lets a new process use the disk. It finds the page cache as it was;
// what an earlier process has open stays dead.
func (d *Disk) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killed = false
	d.gen++
	d.handles = 0
	for _, n := range d.nodes {
		if n != nil && n.open > 0 {
			n.open = 0
			d.reap(n)
		}
	}
}

// Clone is a second disk in the same state, page cache included, without open
// files, faults or a journal. One that is full stays full.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := &Disk{core: d.core.clone(), opts: d.opts, used: d.used, forgetful: d.forgetful}
	if d.filling.begun {
		k.filling = d.filling
	}
	if k.opts.CapacityBytes > 0 {
		k.count()
	}
	return k
}

// Forgetful lets the disk forget what is not durable: no power cut will be
// explored, and no sync fails; Record panics. It is the fastest way to read what
// a state holds.
func (d *Disk) Forgetful() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.track, d.forgetful = false, true
	return d
}
