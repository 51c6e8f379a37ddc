package simdisk

import (
	"durafs/internal/vfs"
)

// Journal is the calls that were made on a disk since Record, and the disk as
// it was then. It is complete when the disk is not used any more.
type Journal struct {
	base    core
	opts    Options
	entries []journalEntry
}

type entryKind uint8

const (
	entryNone entryKind = iota // a call that did nothing
	entryWrite
	entrySync
	entrySyncDir
	entryNames
)

// journalEntry is what one call did.
type journalEntry struct {
	call vfs.Call
	kind entryKind
	node int32
	// change of entryWrite; kept and keptNames of a sync that failed; names of
	// entryNames, whose nodes are those of the disk.
	change    *change
	kept      *content
	keptNames []bool
	names     nameOp
}

// Record begins a journal, and forgets the one before.
func (d *Disk) Record() *Journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.forgetful {
		panic("simdisk: a forgetful disk is recorded")
	}
	d.track = true
	d.journal = &Journal{base: d.core.clone(), opts: d.opts}
	return d.journal
}

// Recorded counts the calls in the journal under way: those that change
// something, the syncs, and those of them that failed. A promise that is made
// when n were recorded holds in every state of n calls or more.
func (d *Disk) Recorded() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.journal == nil {
		return 0
	}
	return len(d.journal.entries)
}

// record notes what a call is about to do. d.mu is held.
func (d *Disk) record(c vfs.Call, err error, e journalEntry) {
	if d.journal == nil {
		return
	}
	c.Err = err
	e.call = c
	d.journal.entries = append(d.journal.entries, e)
}

// note records a call that fails without doing anything, and returns its error.
func (d *Disk) note(c vfs.Call, err error) error {
	if err != nil && !d.killed {
		d.record(c, err, journalEntry{})
	}
	return err
}

// Calls are the calls that were recorded.
func (j *Journal) Calls() []vfs.Call {
	calls := make([]vfs.Call, len(j.entries))
	for i, e := range j.entries {
		calls[i] = e.call
	}
	return calls
}

// replay makes what an entry did on another core that began where the journal
// did.
func (c *core) replay(e *journalEntry) {
	switch e.kind {
	case entryWrite:
		n := c.nodes[e.node]
		if e.change.cut {
			n.give(e.change.size)
		} else {
			n.take(e.change.off, e.change.len)
		}
		c.write(n, e.change)
	case entrySync:
		c.sync(c.nodes[e.node], e.kept)
	case entrySyncDir:
		c.syncDir(c.nodes[e.node], e.keptNames)
	case entryNames:
		for int(e.names.node.id) >= len(c.nodes) { // it was made by this call
			c.addNode(e.names.node.dir)
		}
		op := c.movedOp(e.names)
		if op.toDir != nil && op.fromDir != nil {
			if there := lookup(op.toDir.entries, op.toName); there != nil {
				there.links--
			}
		}
		c.rename(&op)
	}
}
