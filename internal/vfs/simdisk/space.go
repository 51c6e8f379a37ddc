package simdisk

import "math/bits"

// SetCapacity bounds what is allocated from now on; 0: nothing does.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opts.CapacityBytes = bytes
	d.count()
}

// Fill takes all space that is free. What was allocated can still be written.
func (d *Disk) Fill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count()
	d.opts.CapacityBytes = max(d.used, 1)
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

// take allocates the blocks of a range.
func (d *Disk) take(n *node, off, size int64) {
	for b := off / BlockBytes; b*BlockBytes < off+size; b++ {
		for int64(len(n.blocks)) <= b/64 {
			n.blocks = append(n.blocks, 0)
		}
		if !n.hasBlock(b) {
			n.blocks[b/64] |= 1 << (b % 64)
			d.used += BlockBytes
		}
	}
}

// give gives the blocks behind a size back.
func (d *Disk) give(n *node, size int64) {
	for b := (size + BlockBytes - 1) / BlockBytes; b < int64(len(n.blocks))*64; b++ {
		if n.hasBlock(b) {
			n.blocks[b/64] &^= 1 << (b % 64)
			d.used -= BlockBytes
		}
	}
}

// reap gives the space of a file back that has no name and is not open.
func (d *Disk) reap(n *node) {
	if n != nil && !n.dir && n.links <= 0 && n.open <= 0 {
		d.used -= n.allocated()
		n.blocks = nil
	}
}
