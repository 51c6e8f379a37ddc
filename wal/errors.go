package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"durafs/internal/vfs"
	"durafs/segment"
)

var (
	// ErrBusy is a full queue. Nothing was done; try again.
	ErrBusy = errors.New("wal: busy: the queue is full")
	// ErrRefused is a write that failed before its barrier. It is certain that
	// nothing was kept; the cause is wrapped beside it.
	ErrRefused = errors.New("wal: the write failed and nothing was kept")
	// ErrUnknown is a barrier that failed: whether the change is kept shows
	// when the store is opened again.
	ErrUnknown = errors.New("wal: outcome unknown: the write could not be confirmed")
	// ErrPoisoned is a log whose barrier failed before. It takes no changes
	// until the store is opened again; reads go on.
	ErrPoisoned = errors.New("wal: an earlier write could not be confirmed; read-only until opened again")
	// ErrReadOnly is a log that was opened to be read only; why is wrapped
	// beside it.
	ErrReadOnly = errors.New("wal: opened read-only")
	// ErrClosed is a log that was closed.
	ErrClosed = errors.New("wal: closed")
	// ErrTooLarge is a batch over BatchBytesMax.
	ErrTooLarge = errors.New("wal: batch is too large")
	// ErrEnd is a position at which no durable frame is, or not yet.
	ErrEnd = errors.New("wal: no frame there yet")

	// ErrUnknownFlag is a file from a later version: see segment.
	ErrUnknownFlag = segment.ErrUnknownFlag
)

// FutureVersionError is a file from a later version.
type FutureVersionError = segment.FutureVersionError

// NoSpaceError is a file system, or a quota, that is full. Nothing was kept of
// what was refused.
type NoSpaceError struct {
	// Mount is the mountpoint of the file system.
	Mount      string
	FreeBytes  int64
	FreeInodes int64 // -1 where they are not counted
	Err        error
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("wal: no space on %s (%d bytes and %d inodes free): %v", e.Mount, e.FreeBytes, e.FreeInodes, e.Err)
}

func (e *NoSpaceError) Unwrap() error { return e.Err }

// DamageError is stored data that is not what was written. LSNFrom to LSNTo
// are the batches that are harmed, 0 where none can be named.
type DamageError struct {
	File    string
	Offset  int64
	LSNFrom uint64
	LSNTo   uint64
	// Run and Count are what the header of the one batch says that is harmed:
	// whose it was, and how many entries it had. Run is 0 where nobody can
	// tell, or where it was of several.
	Run    uint64
	Count  uint32
	Reason string
	// Err is the error of the operating system, if that is the reason.
	Err error
}

func (e *DamageError) Error() string {
	s := fmt.Sprintf("wal: damage in %s at offset %d: %s", e.File, e.Offset, e.Reason)
	if e.LSNFrom != 0 {
		s += fmt.Sprintf(" (LSN %d to %d)", e.LSNFrom, e.LSNTo)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *DamageError) Unwrap() error { return e.Err }

func noSuchSegment(id uint32, off int64) error {
	return &DamageError{File: segmentName(id), Offset: off, Reason: "no such segment"}
}

// isNoSpace tells the errors that free space cures.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// asNoSpace makes a *NoSpaceError of an error that free space cures, and
// leaves others as they are.
func asNoSpace(fsys vfs.FS, dir string, err error) error {
	if err == nil || !isNoSpace(err) {
		return err
	}
	var done *NoSpaceError
	if errors.As(err, &done) {
		return err
	}
	e := &NoSpaceError{Mount: dir, FreeInodes: -1, Err: err}
	if u, uerr := fsys.Usage(dir); uerr == nil {
		e.Mount, e.FreeBytes, e.FreeInodes = u.Mount, u.FreeBytes, u.FreeInodes
	}
	return e
}

// damageAt makes a *DamageError of what a walk met in a file. Errors that say
// that the file is from a later version stay what they are.
func damageAt(file string, off int64, from, to uint64, err error) error {
	var future *FutureVersionError
	if errors.Is(err, ErrUnknownFlag) || errors.As(err, &future) {
		return fmt.Errorf("wal: %s: %w", file, err)
	}
	if to < from {
		from, to = 0, 0
	}
	d := &DamageError{File: file, Offset: off, LSNFrom: from, LSNTo: to}
	var invalid *segment.InvalidError
	switch {
	case errors.As(err, &invalid):
		d.Reason = invalid.Reason
	case errors.Is(err, fs.ErrNotExist):
		d.Reason, d.Err = "the file is missing", err
	default:
		d.Reason, d.Err = "cannot be read", err
	}
	return d
}
