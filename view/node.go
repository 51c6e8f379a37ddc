package view

import (
	"io/fs"

	"durafs/runs"
)

// Node names one object of the tree, and is its inode number:
//
//	 63     60 59      52 51                    20 19          0
//	+---------+----------+------------------------+-------------+
//	|  kind   | 0 (lane) |  run number, or a day  |    file     |
//	+---------+----------+------------------------+-------------+
//
// It is a function of what it stands for and of nothing else: run numbers,
// payload ordinals and log generations are given by the log and never reused,
// so a node means the same thing after a restart, two objects never share one
// (as hashes would), and no table maps one to the other. The lane is for a
// store of several logs. Kinds end at 7, so that a node is a positive int64.
type Node uint64

// Kind is what a node's other fields mean.
type Kind uint8

// The kinds. Their numbers are inode numbers that people may have noted down:
// they are never renumbered.
const (
	KindFixed   Kind = 0 // file is one of the fixed nodes below
	KindRun     Kind = 1 // a run's directory (file 0) or a file in it
	KindLog     Kind = 2 // a run's log; file is its generation
	KindPayload Kind = 3 // file is the payload's ordinal
	KindDay     Kind = 4 // a directory in /by-day; run is the day since 1970
	KindDayLink Kind = 5 // the link to a run in its day's directory
)

// The fixed nodes. Root is 1 as every kernel has it.
const (
	Root       Node = 1
	RunsDir    Node = 2
	ByDayDir   Node = 3
	StatusFile Node = 4
)

// Numbers of the files in a run's directory; also their order in its listing.
const (
	fileDir = iota
	fileRecord
	fileLog
	filePayload
	filePayloads
	fileLate
)

const (
	fileBits = 20
	runBits  = 32
	// FileMax bounds ordinals and generations that have a node. A payload
	// beyond it is reachable by the API only.
	FileMax = 1<<fileBits - 1
)

func node(kind Kind, run uint32, file uint32) Node {
	return Node(kind)<<60 | Node(run)<<fileBits | Node(file&FileMax)
}

// Kind tells what n stands for.
func (n Node) Kind() Kind { return Kind(n >> 60) }

func (n Node) run() runs.Ref { return runs.Ref(n >> fileBits) }
func (n Node) day() uint32   { return uint32(n >> fileBits) }
func (n Node) file() uint32  { return uint32(n) & FileMax }

// Run tells the run that n belongs to, if it belongs to one.
func (n Node) Run() (runs.Ref, bool) {
	switch n.Kind() {
	case KindRun, KindLog, KindPayload, KindDayLink:
		return n.run(), true
	}
	return 0, false
}

// Type is the type part of the node's file mode.
func (n Node) Type() fs.FileMode {
	switch n.Kind() {
	case KindFixed:
		if n != StatusFile {
			return fs.ModeDir
		}
	case KindRun:
		if f := n.file(); f == fileDir || f == filePayloads {
			return fs.ModeDir
		}
	case KindDay:
		return fs.ModeDir
	case KindDayLink:
		return fs.ModeSymlink
	}
	return 0
}

// RunDir is the directory of a run.
func RunDir(ref runs.Ref) Node { return node(KindRun, uint32(ref), fileDir) }

// RecordFile is the record of a run.
func RecordFile(ref runs.Ref) Node { return node(KindRun, uint32(ref), fileRecord) }

// LogFile is the log of a run in one of its generations.
func LogFile(ref runs.Ref, generation uint32) Node {
	return node(KindLog, uint32(ref), generation)
}

// PayloadsDir is the directory of a run's named payloads.
func PayloadsDir(ref runs.Ref) Node { return node(KindRun, uint32(ref), filePayloads) }

// PayloadFile is a payload of a run, the terminal one too.
func PayloadFile(ref runs.Ref, ordinal uint32) Node {
	return node(KindPayload, uint32(ref), ordinal)
}

// LateFile is the file of a run's late writes.
func LateFile(ref runs.Ref) Node { return node(KindRun, uint32(ref), fileLate) }

func dayDir(day uint32) Node      { return node(KindDay, day, 0) }
func dayLink(ref runs.Ref) Node   { return node(KindDayLink, uint32(ref), 0) }
func ordinalFits(ord uint32) bool { return ord <= FileMax }
