// Package view shows a store as a tree of names, for people and programs that
// have ls, cat, grep, jq, tail and tar.
//
//	/runs/<id>/record           the public record, JSON, indented
//	          /log              every row, one line; grows while the run lives
//	          /payload          the terminal payload, absent until there is one
//	          /payloads/<name>  every other payload that may be shown
//	          /late             late writes, absent while there are none
//	          /history          what a model sees of its calls, one line for each
//	          /tools/<call>     claim and outcome of a call, JSON
//	/by-day/<yyyy-mm-dd>/<id>   links into /runs, by the day of the start (UTC)
//	/by-thread/<thread>/<id>    by the thread that the run's labels name
//	/by-phase/<phase>/<id>      by the phase that the run is in now
//	/threads/<thread>/text      a conversation for people
//	                 /json      and for programs
//	/journal/<target>           a target's journal, one line for each row
//	/status                     what the daemon says of itself
//
// # The idea
//
// The tree is computed, never built. A node is a number that says what it
// stands for (node.go), so any node can be asked about at any time, after a
// restart too, and nothing has to be remembered or forgotten. A listing goes
// on from a key, not from a position, so that what appears meanwhile is
// neither lost nor shown twice. Only committed state is shown, and what is
// opened has its exact size before its first byte is read.
//
// View is the tree by nodes, as a kernel asks for it; FS is the same tree by
// paths, as io/fs.
package view

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"durafs/runs"
)

// Source is what the tree is computed from: *runs.Store. Its methods may be
// called concurrently and tell published state only.
type Source interface {
	Lookup(id string) (runs.Ref, bool)
	Info(ref runs.Ref) (runs.Run, bool)
	Record(ref runs.Ref) (*runs.Record, error)
	Newest() runs.Ref
	ReadLogAt(ref runs.Ref, p []byte, off int64) (int, error)
	ReadLateAt(ref runs.Ref, p []byte, off int64) (int, error)
	PayloadList(ref runs.Ref) ([]runs.PayloadInfo, error)
	PayloadInfo(ref runs.Ref, name string) (runs.PayloadInfo, error)
	OpenPayload(ref runs.Ref, name string) (runs.PayloadReader, error)

	OpenHistory(ref runs.Ref) (runs.HistoryLines, error)
	OpenCalls(ref runs.Ref) (runs.CallLog, error)

	ThreadOf(ref runs.Ref) string
	InPhase(p runs.Phase, from runs.Ref, limit int) []runs.Ref
	PhasedAt() time.Time

	ThreadByName(name string) (runs.ThreadHead, bool)
	ThreadsFrom(number uint64, limit int) []runs.ThreadHead
	OpenThread(name string) (runs.Conversation, bool)
	ThreadLastAt(name string) time.Time

	JournalTargets() []runs.Target
	JournalVersion(target string) uint64
	Journal(c runs.Caller, target string, after uint64) ([]runs.JournalRow, error)

	Listen(fn func([]runs.Change))
}

// The errors of this package. Errors of the Source pass through as they are:
// a missing file beneath the store is not a missing name in the tree.
var (
	// ErrNotExist: there is no such name or node.
	ErrNotExist = errors.New("view: no such name")
	// ErrStale: the node was replaced under its name (a log of an earlier
	// generation); look the name up again.
	ErrStale = errors.New("view: the node was replaced")
	// ErrNotDir: the node is not a directory.
	ErrNotDir = errors.New("view: not a directory")
	// ErrIsDir: the node is a directory and cannot be read as a file.
	ErrIsDir = errors.New("view: is a directory")
	// ErrNotLink: the node is not a symbolic link.
	ErrNotLink = errors.New("view: not a symbolic link")
	// ErrNameTooLong: the name is longer than NameBytesMax.
	ErrNameTooLong = errors.New("view: name too long")
)

// NameBytesMax is the length of the longest name in the tree.
const NameBytesMax = 255

// View is the tree over a source. Its methods may be called concurrently.
type View struct {
	src    Source
	status func() []byte

	days     groups[uint32] // runs by the day of their start
	threads  groups[string] // and by their thread
	admitted admissions
	lists    payloadLists

	// What was worked out last; see memo.
	histories   memo[momentKey, *rendered]
	callLogs    memo[momentKey, runs.CallLog]
	texts       memo[textKey, []byte]
	threadTexts memo[threadKey, *rendered]
	journals    memo[journalKey, []byte]

	// watchers is replaced as a whole, so that the log's committer
	// reads it without a lock.
	watchers atomic.Pointer[[]*watcher]
}

type watcher struct{ fn func([]runs.Change) }

// New makes the tree over src and registers with src.Listen. status renders
// the content of /status, for each reader anew; nil for an empty file.
func New(src Source, status func() []byte) *View {
	if status == nil {
		status = func() []byte { return nil }
	}
	v := &View{src: src, status: status, days: byDay(), threads: byThread(src)}
	v.watchers.Store(new([]*watcher))
	src.Listen(v.publish)
	return v
}

func (v *View) publish(changes []runs.Change) {
	for _, w := range *v.watchers.Load() {
		w.fn(changes)
	}
}

// Watch calls fn with what each barrier made visible until stop is called. fn
// is called by the log's committer and must not block; it may be called
// once more while stop returns.
func (v *View) Watch(fn func([]runs.Change)) (stop func()) {
	w := &watcher{fn}
	v.swapWatchers(func(old []*watcher) []*watcher { return append(old, w) })
	return func() {
		v.swapWatchers(func(old []*watcher) []*watcher {
			kept := old[:0]
			for _, o := range old {
				if o != w {
					kept = append(kept, o)
				}
			}
			return kept
		})
	}
}

func (v *View) swapWatchers(edit func([]*watcher) []*watcher) {
	for {
		old := v.watchers.Load()
		fresh := edit(append([]*watcher(nil), *old...))
		if v.watchers.CompareAndSwap(old, &fresh) {
			return
		}
	}
}

// Attr is what is known of a node without reading it.
type Attr struct {
	Node Node
	// Type is the type part of a file mode: fs.ModeDir, fs.ModeSymlink or 0.
	Type fs.FileMode
	// Size is exact, for a link the length of its target, for a directory 0.
	Size int64
	// Mtime is the last committed change.
	Mtime time.Time
	// Live is set while the node's run goes on, and for what is of no run: it
	// may change at any time. Of an ended run little changes, seldom: a record
	// that is pinned, late words; of that each is told by Effects.
	Live bool
	// Sealed is set for content that never changes again, so that it may be
	// cached for ever.
	Sealed bool
}
