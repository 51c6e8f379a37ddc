package simdisk

import "slices"

// A block that cannot be read is one on which the device has given up: every
// read that touches it fails with EIO, through the page cache or past it. A
// write of the whole block mends it, since the device puts it elsewhere. One of
// a part of it fails too: the kernel would have to read the rest first.

// unreadable tells whether a block that cannot be read lies in a range.
func (n *node) unreadable(off, size int64) bool {
	return size > 0 && slices.ContainsFunc(n.bad, func(b int64) bool {
		return b*BlockBytes < off+size && off < (b+1)*BlockBytes
	})
}

// mend takes the blocks that are written whole from those that cannot be read.
// It is false, and nothing is mended, where one is written in part only.
func (n *node) mend(off, size int64) bool {
	if !n.unreadable(off, size) {
		return true
	}
	rest := slices.DeleteFunc(slices.Clone(n.bad), func(b int64) bool {
		return off <= b*BlockBytes && (b+1)*BlockBytes <= off+size
	})
	whole := &node{bad: rest}
	if whole.unreadable(off, size) {
		return false
	}
	n.bad = rest
	return true
}
