// Package fusefs mounts a view of a store, read-only, with FUSE.
//
// # The idea
//
// It is an adapter and decides nothing about the tree: names, sizes and bytes
// are package view's. What it adds is the kernel's side: which of its answers
// the kernel may remember and for how long, which files it may keep in its
// page cache, what it has to be told when something changes, and how a mount
// begins and ends.
//
// Three rules are behind most of the code.
//
//   - A file that still grows is never in the page cache (FOPEN_DIRECT_IO). The
//     kernel raises a cached file's size before it has the bytes, and another
//     reader would see zeros there, in every mode of caching. (What goes around
//     the read path, sendfile and splice, still can, until the file is sealed.)
//   - A read is answered completely or not at all. The kernel takes a short
//     answer for the end of the file and keeps it for all readers.
//   - The daemon never touches its own mount, except for the one open by which
//     go-fuse settles that the mount cannot be polled: a process that waits for
//     itself is not woken by anyone.
//
// The raw API of go-fuse is used, with the view's node numbers as node ids and
// inode numbers. So there is no table of inodes, and memory does not grow with
// what was looked at.
package fusefs

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"durafs/internal/clock"
	"durafs/view"
)

// Options say what to mount and where.
type Options struct {
	// Dir is the mountpoint: an existing, empty directory.
	Dir string
	// Store is the store's directory, which Dir must not touch; it names the
	// mount in the mount table.
	Store string
	// View is the tree.
	View *view.View
	// Space tells how full the store's file system is, for statfs. Nil: no
	// numbers.
	Space func() (Space, error)

	// UID and GID own all files; nil for the process's effective ones.
	UID, GID *uint32
	// Mode holds the permission bits of directories, 0 for 0500. Files have
	// the same without execution. There is never a write bit.
	Mode os.FileMode
	// AllowOther lets other users in, as far as UID, GID and Mode let them.
	// Without it not even root passes, unless root mounted.
	AllowOther bool

	// Log takes what an operator wants to know; nil for slog.Default.
	Log *slog.Logger
	// Debug logs every request.
	Debug bool
	// Clock is for tests; nil for the machine's.
	Clock clock.Clock
}

// Space is how full a file system is.
type Space struct {
	SizeBytes, FreeBytes int64
	// Inodes and FreeInodes are -1 where they are not counted; without the
	// first the second is not told.
	Inodes, FreeInodes int64
}

// Server is a mount that is being served. Goroutines: go-fuse's loops, which
// call the handlers, and the notifier (notify.go).
type Server struct {
	fs     *rawFS
	fuse   *fuse.Server
	dir    string // resolved
	helper string // the path of fusermount3, "" if the process mounts itself
	dev    string // the device number of the mount, as text
	log    *slog.Logger

	served  chan struct{} // closed when the kernel has let go of the mount
	unmount sync.Mutex    // one Unmount at a time
}

// Dir is the mountpoint as it was resolved.
func (s *Server) Dir() string { return s.dir }

// Done is closed when the mount has ended: by Unmount, or by somebody else's
// umount.
func (s *Server) Done() <-chan struct{} { return s.served }

// Stats counts what happened since the mount began.
type Stats struct {
	Requests      uint64 // that were handled
	Failures      uint64 // answered EIO, panics included
	Panics        uint64 // of handlers
	Handles       int    // open files that hold something
	Notifications uint64 // told to the kernel
	Overflows     uint64 // changes that were too many to tell
	Pushing       bool   // false if the kernel takes no notifications
}

// Stats may be called at any time.
func (s *Server) Stats() Stats { return s.fs.snapshot() }

// counters are changed by handlers and by the notifier, atomically.
type counters struct {
	requests, failures, panics, notifications, overflows atomic.Uint64
}

// How long the kernel may remember.
const (
	// sealedTimeout is for what never changes, or is told when it does.
	sealedTimeout = time.Hour
	// liveTimeout is for what may change. Changes are pushed; but a push can
	// cross an answer that was computed before and has not arrived:
	//
	//	handler of LOOKUP              writer, notifier
	//	reads the size: 10
	//	                               publishes the size 20
	//	                               tells the kernel, which knows no
	//	                               such inode yet
	//	answers the size 10
	//
	// and nobody would say 20 again. So what is live is never remembered for
	// longer than this.
	liveTimeout = 500 * time.Millisecond
)

// mountTimeout bounds the wait for the first request of a new mount, and for
// the answer of a mount that is found in place.
const mountTimeout = 10 * time.Second

// unmountRetry is how long Unmount waits for readers before it detaches.
const unmountRetry = 2 * time.Second
