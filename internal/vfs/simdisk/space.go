package simdisk

import (
	"math/bits"
	"syscall"

	"durafs/internal/vfs"
)

// SetCapacity bounds what is allocated from now on; 0: nothing does. It takes
// back what Fill did, and FillFrom is to do.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.filling = filling{}
	d.opts.CapacityBytes = bytes
	d.count()
}

// Fill takes all space that is free. What was allocated can still be written.
func (d *Disk) Fill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.filling = filling{begun: true}
	d.fill()
}

func (d *Disk) fill() {
	d.count()
	d.opts.CapacityBytes = max(d.used, 1)
}

// filling is a disk that is to become full, or is.
type filling struct {
	planned, begun bool
	from           int // the call before which it becomes full
	inodes         bool
}

// FillFrom lets the disk become full right before the call with this number is
// made (see Calls and SetFault), as Fill does at once. With inodes none of these
// is left either: what makes a file or a directory fails, with ENOSPC. It ends
// with SetCapacity.
func (d *Disk) FillFrom(n int, inodes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.filling = filling{planned: true, from: n, inodes: inodes}
}

// Filled tells whether the disk is full because of Fill or FillFrom.
func (d *Disk) Filled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.filling.begun
}

// Inodeless tells whether it is full of files, too.
func (d *Disk) Inodeless() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.filling.begun && d.filling.inodes
}

// fills lets the disk become full if it is time, and tells how a call fails for
// that alone. d.mu is held.
func (d *Disk) fills(n int, c vfs.Call) *Fault {
	f := &d.filling
	if f.planned && !f.begun && n >= f.from {
		f.begun = true
		d.fill()
	}
	if f.begun && f.inodes && c.Op&(vfs.OpCreate|vfs.OpMkdir) != 0 {
		return &Fault{Err: syscall.ENOSPC}
	}
	return nil
}

// UsedBytes is what is allocated: blocks that were written, of files that have
// a name or are open.
func (d *Disk) UsedBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count()
	return d.used
}

// count counts what is allocated; a disk without a capacity does not keep it.
func (d *Disk) count() {
	d.used = 0
	for _, n := range d.nodes {
		if n != nil && (n.links > 0 || n.open > 0) {
			d.used += n.allocated()
		}
	}
}

func (n *node) allocated() int64 {
	blocks := 0
	for _, w := range n.blocks {
		blocks += bits.OnesCount64(w)
	}
	return int64(blocks) * BlockBytes
}

// room is what the process may still allocate.
func (d *Disk) room() int64 {
	room := d.opts.CapacityBytes - d.used
	if !d.opts.Root {
		room -= d.opts.ReservedBytes
	}
	return room
}

// roomFor is how much of a write there is room for.
func (d *Disk) roomFor(n *node, off, size int64) int64 {
	if d.opts.CapacityBytes == 0 || size == 0 {
		return size
	}
	room := d.room()
	for b := off / BlockBytes; b*BlockBytes < off+size; b++ {
		if n.hasBlock(b) {
			continue
		}
		if room -= BlockBytes; room < 0 {
			return max(b*BlockBytes-off, 0)
		}
	}
	return size
}

func (n *node) hasBlock(b int64) bool {
	return b/64 < int64(len(n.blocks)) && n.blocks[b/64]>>(b%64)&1 != 0
}

// take allocates the blocks of a range, and returns how many bytes it took.
func (n *node) take(off, size int64) (taken int64) {
	for b := off / BlockBytes; b*BlockBytes < off+size; b++ {
		for int64(len(n.blocks)) <= b/64 {
			n.blocks = append(n.blocks, 0)
		}
		if !n.hasBlock(b) {
			n.blocks[b/64] |= 1 << (b % 64)
			taken += BlockBytes
		}
	}
	return taken
}

// give gives the blocks behind a size back, and returns how many bytes these
// were.
func (n *node) give(size int64) (given int64) {
	for b := (size + BlockBytes - 1) / BlockBytes; b < int64(len(n.blocks))*64; b++ {
		if n.hasBlock(b) {
			n.blocks[b/64] &^= 1 << (b % 64)
			given += BlockBytes
		}
	}
	return given
}

// reap gives the space of a file back that has no name and is not open.
func (d *Disk) reap(n *node) {
	if n != nil && !n.dir && n.links <= 0 && n.open <= 0 {
		d.used -= n.allocated()
		n.blocks = nil
	}
}
