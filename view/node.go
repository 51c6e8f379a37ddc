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
//
// A thread is numbered by the LSN of its first message, which takes the place
// of run number and most of file, a journal by the number of its target.
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
	KindGroup   Kind = 4 // a directory of links; file says of which, see below
	KindLink    Kind = 5 // a link to a run; file says in which directory
	KindTool    Kind = 6 // a tool call of a run; file is its number
	KindThread  Kind = 7 // a thread's directory, or a file in it
)

// The fixed nodes. Root is 1 as every kernel has it.
const (
	Root       Node = 1
	RunsDir    Node = 2
	ByDayDir   Node = 3
	StatusFile Node = 4

	ByThreadDir Node = 5
	ByPhaseDir  Node = 6
	ThreadsDir  Node = 7
	JournalDir  Node = 8 // with 1 + a target's number as run: its journal
)

// Groups, by the file of KindGroup, and of the links in them by that of
// KindLink. A phase's directory is one of the fixed nodes, since it has no run:
// the phase's number as the run, and this as the file.
const (
	groupDay    = 0  // run is the day since 1970
	groupThread = 1  // run is the first one of the thread that there is
	groupPhase  = 16 // and the phase's number, in the file
)

// Numbers of the files in a run's directory; also their order in its listing.
const (
	fileDir = iota
	fileRecord
	fileLog
	filePayload
	filePayloads
	fileLate
	fileHistory
	fileTools
	fileLast = fileTools
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

// A thread's node has no lane: 56 bits of LSN, 4 of file.
func (n Node) lsn() uint64        { return uint64(n) << 4 >> 8 }
func (n Node) threadFile() uint32 { return uint32(n) & 15 }

// Run tells the run that n belongs to, if it belongs to one.
func (n Node) Run() (runs.Ref, bool) {
	switch n.Kind() {
	case KindRun, KindLog, KindPayload, KindLink, KindTool:
		return n.run(), true
	}
	return 0, false
}

// Type is the type part of the node's file mode.
func (n Node) Type() fs.FileMode {
	switch n.Kind() {
	case KindFixed:
		if n != StatusFile && !n.isJournal() {
			return fs.ModeDir
		}
	case KindRun:
		if f := n.file(); f == fileDir || f == filePayloads || f == fileTools {
			return fs.ModeDir
		}
	case KindGroup:
		return fs.ModeDir
	case KindThread:
		if n.threadFile() == threadDir {
			return fs.ModeDir
		}
	case KindLink:
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

// HistoryFile is the file of a run's history.
func HistoryFile(ref runs.Ref) Node { return node(KindRun, uint32(ref), fileHistory) }

// ToolsDir is the directory of a run's tool calls.
func ToolsDir(ref runs.Ref) Node { return node(KindRun, uint32(ref), fileTools) }

// ToolFile is a tool call of a run, by its number.
func ToolFile(ref runs.Ref, call uint32) Node { return node(KindTool, uint32(ref), call) }

// ThreadNode is the directory of a thread, by the thread's number.
func ThreadNode(number uint64) Node { return threadNode(number, threadDir) }

func threadNode(number uint64, file uint32) Node {
	return Node(KindThread)<<60 | Node(number)<<8>>4 | Node(file)
}

// PhaseDir is the directory of the runs in a phase.
func PhaseDir(p runs.Phase) Node { return node(KindFixed, 0, groupPhase+uint32(p)) }

// phaseOf is the phase whose directory n is.
func phaseOf(n Node) (runs.Phase, bool) {
	p := runs.Phase(n - PhaseDir(runs.PhaseNone))
	_, ok := runs.ParsePhase(p.String())
	return p, ok && n == PhaseDir(p)
}

func journalFile(t runs.Target) Node { return node(KindFixed, t.Number+1, uint32(JournalDir)) }
func (n Node) isJournal() bool {
	return n.Kind() == KindFixed && n.file() == uint32(JournalDir) && n != JournalDir
}

func dayDir(day uint32) Node          { return node(KindGroup, day, groupDay) }
func threadGroup(first runs.Ref) Node { return node(KindGroup, uint32(first), groupThread) }
func dayLink(ref runs.Ref) Node       { return node(KindLink, uint32(ref), groupDay) }
func threadLink(ref runs.Ref) Node    { return node(KindLink, uint32(ref), groupThread) }
func phaseLink(r runs.Run) Node       { return node(KindLink, uint32(r.Ref), groupPhase+uint32(r.Phase)) }
func ordinalFits(ord uint32) bool     { return ord <= FileMax }
