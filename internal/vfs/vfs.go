// Package vfs is the one small file-system interface that all of the store
// goes through.
//
// Durability is about system calls: which bytes survive a power cut is decided
// by which writes, syncs and renames were made, in which order. So every such
// call of the store is a method here, and nothing else is: what a test wants
// to record, to fail, or to play back as a crash (see package simdisk) it can
// see completely, and what the store cannot do through this interface it does
// not do.
//
// Names are slash-separated paths as the operating system takes them. Errors
// are those of the operating system, wrapped in *fs.PathError (*os.LinkError
// for a rename), so that errors.Is(err, syscall.ENOSPC) and
// errors.Is(err, fs.ErrNotExist) work on every implementation.
//
// What every implementation must do is a test: package vfstest. Hooked puts a
// function around every call; Recorder and Faulty are made of it.
package vfs

import "io"

// FS makes and changes names. Its methods may be called concurrently.
//
// No method syncs anything by itself: a new name survives a power cut once the
// directory that holds it was synced (Dir.Sync), its content once the file was
// (File.Datasync).
type FS interface {
	// Create makes a new empty file for reading and writing, with mode 0600
	// under any umask. It is an error (fs.ErrExist) if the name exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// OpenDir opens an existing directory so that it can be synced. Open it
	// before the change that it is to make durable: an error that the kernel
	// noted in between would else go unseen.
	OpenDir(name string) (Dir, error)
	// Mkdir makes a directory with mode 0700 under any umask.
	Mkdir(name string) error
	// Rename gives a file another name in the same file system, atomically,
	// replacing a file of that name.
	Rename(oldname, newname string) error
	// Remove unlinks a file or an empty directory.
	Remove(name string) error
	// ReadDir lists the names in a directory, sorted.
	ReadDir(name string) ([]string, error)
	// Stat tells kind and size of what a name stands for.
	Stat(name string) (Info, error)
	// Usage tells how full the file system is that holds name.
	Usage(name string) (Usage, error)
}

// File is an open file. ReadAt, WriteAt and the syncs may be called
// concurrently; Close is called once, by the owner.
type File interface {
	io.ReaderAt
	// WriteAt writes all of p at off or returns an error; after an error any
	// part of it may have been written.
	io.WriterAt
	io.Closer

	// ReadUncachedAt is ReadAt, but of what the device holds and not of what
	// the page cache believes: after a failed sync the two can differ, and a
	// new process cannot know of it. It uses O_DIRECT, or where that is
	// refused drops the cached pages first.
	ReadUncachedAt(p []byte, off int64) (int, error)

	// Datasync returns when content and size are on stable storage
	// (fdatasync). After an error nothing is known about any write since the
	// last successful one, now and for ever: do not retry, do not go on.
	Datasync() error
	// WriteBehind starts writing back n bytes at off without waiting for them
	// (sync_file_range). It promises nothing; it spreads the work of a later
	// Datasync over time. Where the system cannot do that it does nothing.
	WriteBehind(off, n int64) error

	// Truncate sets the size.
	Truncate(size int64) error
	// Size tells the current size.
	Size() (int64, error)
	// Name is the path that the file was opened with.
	Name() string
}

// Dir is an open directory.
type Dir interface {
	// Sync returns when the names in the directory are on stable storage. The
	// rule of Datasync after an error holds here too.
	Sync() error
	Close() error
}

// Info is what Stat tells.
type Info struct {
	Size  int64
	IsDir bool
	// Links counts the hard links to a file.
	Links uint64
}

// Usage is how full a file system is.
type Usage struct {
	// Mount is the mountpoint of the file system, or the name asked for where
	// that cannot be told.
	Mount string
	// Type is the magic number that statfs answers.
	Type int64
	// SizeBytes and FreeBytes count what this process may use.
	SizeBytes, FreeBytes int64
	// FreeInodes is -1 where the file system does not count inodes.
	FreeInodes int64
}
