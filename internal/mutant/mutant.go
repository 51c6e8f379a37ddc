// Package mutant plants faults in the storage engine on purpose, to see whether
// the crash harness finds them: a test is worth what it catches.
//
// Each place that can be wrong asks On with the name of its fault. In a usual
// build that is the constant false, and the fault is not even compiled. Built
// with the tag "mutants", Use switches one on, and bench/crash runs every layer
// over each:
//
//	make mutants
package mutant

// Name is a fault.
type Name int

// The faults.
const (
	None Name = iota
	NoDirSyncAfterCreate
	NoDirSyncAfterRename
	DirOfKilledNotSynced
	AckBeforeBarrier
	SyncRetried
	SaltNotInChecksum
	OldTailAppended
	ManifestUnlinkedEarly
	ManifestNotSynced
	ListedAfterFrames
	ChunkNotSynced
	DedupBeforeBarrier
	FooterTrusted
	LengthBeforeChecksum
	PayloadNotChecked
	DuplicateBeforeBarrier
	CacheTrusted
	FirstLaterFrame
	RotIsCut
	DurableIsAccepted
	RefusedSegmentWritten
	NewestPublished
	CutBeforeListed
	ChunkNotVerified
	LinkedRecycled
	VouchedInItsBlock
	SweepNotFrozen
	SweepNotDrained
	SweepErrorIsEmpty
	SweepUnlinkedEarly
	SweepNotSealed
	OutboxDoneEarly

	end
)

// descriptions say what each does wrong.
var descriptions = [end]string{
	NoDirSyncAfterCreate:   "no fsync of the directory after a pack or the log's directory was made",
	NoDirSyncAfterRename:   "no fsync of the directory after a segment got its name",
	DirOfKilledNotSynced:   "a directory that exists is taken as it is, and not synced at open",
	AckBeforeBarrier:       "a group is acknowledged before its barrier",
	SyncRetried:            "a barrier that failed is tried again",
	SaltNotInChecksum:      "the salt is not in the checksum of a frame",
	OldTailAppended:        "recovery appends to the tail of an earlier process",
	ManifestUnlinkedEarly:  "the old manifest is unlinked before the new one has its name",
	ManifestNotSynced:      "an edit of the manifest counts before its barrier",
	ListedAfterFrames:      "a segment is given to the writer before the manifest lists it",
	ChunkNotSynced:         "a batch is written before the chunks it refers to are durable",
	DedupBeforeBarrier:     "a stored chunk counts for others before it is durable",
	FooterTrusted:          "a pack's footer is believed without a check",
	LengthBeforeChecksum:   "a frame that does not check is stepped over by its length",
	PayloadNotChecked:      "a frame's payload is not checked against its checksum",
	DuplicateBeforeBarrier: "what was decided on an accepted value is answered before its barrier",
	CacheTrusted:           "recovery believes the page cache",
	FirstLaterFrame:        "the first later frame decides torn or rot, not the largest durable",
	RotIsCut:               "whatever does not check at the end is cut",
	DurableIsAccepted:      "a frame calls durable what is only accepted",
	RefusedSegmentWritten:  "a segment is written on after a write to it failed",
	NewestPublished:        "with a group the newest accepted values are published too",
	CutBeforeListed:        "a segment is cut to its end before the manifest tells the end",
	ChunkNotVerified:       "a chunk is given out without a check",
	LinkedRecycled:         "a segment with a second name is written again",
	VouchedInItsBlock:      "the frame that vouches stands in the block that it vouches for",
	SweepNotFrozen:         "a sweep does not keep puts from finding chunks in what it removes",
	SweepNotDrained:        "a sweep does not wait for those who have found chunks in what it removes",
	SweepErrorIsEmpty:      "a sweep takes what it cannot read for something that refers to nothing",
	SweepUnlinkedEarly:     "a sweep removes files before the manifest says that they are gone",
	OutboxDoneEarly:        "a settlement's outbox is emptied before what it tells of is in journal, thread and record",
	SweepNotSealed:         "a sweep removes packs before what it copied out of them is sealed",
}

// String is what the fault does wrong.
func (n Name) String() string {
	if n > None && n < end {
		return descriptions[n]
	}
	return "none"
}

// All are all faults.
func All() []Name {
	var all []Name
	for n := None + 1; n < end; n++ {
		all = append(all, n)
	}
	return all
}
