// Package crash looks for the crash that loses what was promised.
//
// # The idea
//
// A Driver uses a part of the store as its users do, and says at each
// acknowledgement what is promised from then on. It also knows how to open what
// a crash left, and to judge it. The harness runs the driver on a simulated
// disk (package simdisk), takes every state that a power cut could leave at
// every system call, and lets the driver judge each: what was promised must be
// there, nothing that was never tried may be, opening takes no help, and work
// goes on. Recovery is cut in the same way.
//
// # Layers
//
//	L1   power cuts: every call, every state that the strict model of simdisk
//	     allows, then the same within the recovery from it (depth 2), and the
//	     process killed with its page cache kept, and the power cut after that
//	L2   every single call fails, in each way that it can, done or not; then
//	     the process is started again on the page cache as it is, or after a
//	     power cut, and that recovery is cut too
//	L7   what is stored rots: every kind of file, every region of it
//
// A failure becomes a file that Replay judges again: the disk, and what was
// promised of it.
package crash

import (
	"sync"
	"sync/atomic"

	"durafs/internal/vfs/simdisk"
)

// Driver is a way of using the store that is to survive every crash.
type Driver struct {
	Name string
	// Doc says in one line what it does.
	Doc string
	// Disk is what it runs on, and Explore what states of it are of interest;
	// the harness sets the rest.
	Disk    simdisk.Options
	Explore simdisk.Explore
	// Live is one life of a process: it opens what is on the disk, holds it
	// against what was promised in the lives before, and works on. A nil error
	// says that all is as it should be. At the end it must have closed what it
	// opened; Life.Kill lets it do so without a trace.
	Live func(*Life) error
	// Judge is the part of Live that opens and judges, where it can be made
	// without the rest; nil: Live does it. It is what most lives are.
	Judge func(*Life) error
	// Rotten judges a disk on which what was stored has rotted: nothing false
	// may be shown, and what was promised is there or named as damaged. nil: the
	// driver has no L7.
	Rotten func(*Life) error
	// States is how many states after crashes a usual run of L1 judges, where
	// there are as many; 0: as many as there is time for.
	States int64
	// Ballasts are the files that pay for an open on a full disk: while each is
	// there with so many bytes, it has to find what it needs.
	Ballasts map[string]int64
	// Variant does the work of another driver in another shape: L2 and L7 give it
	// a part of the time only.
	Variant bool
}

// Promise is something that a driver said will be there from then on, or that
// it has tried. What the fields mean is the driver's business.
type Promise struct {
	What string
	N, M uint64
	Text string `json:",omitempty"`
}

// Life is one process's life on a disk.
type Life struct {
	*simdisk.Disk
	// Depth counts the lives before this one.
	Depth int
	// Seed is for choices of the driver's own.
	Seed uint64
	// Faulty says that calls may fail: the store may refuse, and fail to open,
	// but must not promise what it then has not.
	Faulty bool
	// Closes asks a first life to end well, or says that it did.
	Closes bool
	// Rot is what has rotted, for Rotten.
	Rot simdisk.Damage

	sound  *simdisk.Disk // before it rotted, to be read only
	salted atomic.Uint32 // salts that were given; see salts
	full   *fullDisk     // not nil: the disk becomes full, and that is all that fails
	reader atomic.Pointer[reader]

	// mu guards the promises, which may come from several callers.
	mu       sync.Mutex
	promises []Promise
	at       []int // calls recorded when each of the last promises was made
}

// Promise notes a promise. It counts in every state that has the calls made so
// far.
func (l *Life) Promise(p Promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.promises = append(l.promises, p)
	l.at = append(l.at, l.Recorded())
}

// Promises are all promises, of earlier lives too, in order.
func (l *Life) Promises() []Promise { return l.promises }

// Inherited are the promises of earlier lives.
func (l *Life) Inherited() []Promise { return l.promises[:len(l.promises)-len(l.at)] }

// upTo are the promises that hold in a state of so many calls.
func (l *Life) upTo(calls int) []Promise {
	n := len(l.at)
	for n > 0 && l.at[n-1] > calls {
		n--
	}
	all := len(l.promises) - len(l.at) + n
	return l.promises[:all:all]
}
