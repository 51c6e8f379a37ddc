package fusefs

import (
	"context"
	"errors"
	"syscall"

	"durafs/runs"
	"durafs/view"
)

// errno is the one place that makes an error an errno. What is not in the
// table is EIO: above all errors of the operating system, since a file missing
// beneath the store is not a missing name in the mount.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if code := runs.CodeOf(err); code != "" {
		if e, ok := refusals[code]; ok {
			return e
		}
		return syscall.EIO
	}
	for _, row := range errors_ {
		if row.is(err) {
			return row.errno
		}
	}
	return syscall.EIO
}

// Errors of this package, for the table.
var (
	// ErrReadOnly answers everything that would change something.
	ErrReadOnly = errors.New("fusefs: the mount is read-only")
	// ErrHandles: more files are open than HandlesMax.
	ErrHandles = errors.New("fusefs: too many open files")
)

type errnoRow struct {
	name  string // as package.Name
	is    func(error) bool
	errno syscall.Errno
}

func value(name string, target error, e syscall.Errno) errnoRow {
	return errnoRow{name, func(err error) bool { return errors.Is(err, target) }, e}
}

func kind[T error](name string, e syscall.Errno) errnoRow {
	return errnoRow{name, func(err error) bool { _, ok := errors.AsType[T](err); return ok }, e}
}

var errors_ = []errnoRow{
	value("fusefs.ErrReadOnly", ErrReadOnly, syscall.EROFS),
	value("fusefs.ErrHandles", ErrHandles, syscall.ENFILE),

	value("view.ErrNotExist", view.ErrNotExist, syscall.ENOENT),
	value("view.ErrStale", view.ErrStale, syscall.ESTALE),
	value("view.ErrNotDir", view.ErrNotDir, syscall.ENOTDIR),
	value("view.ErrIsDir", view.ErrIsDir, syscall.EISDIR),
	value("view.ErrNotLink", view.ErrNotLink, syscall.EINVAL),
	value("view.ErrNameTooLong", view.ErrNameTooLong, syscall.ENAMETOOLONG),

	value("context.Canceled", context.Canceled, syscall.EINTR),
	value("context.DeadlineExceeded", context.DeadlineExceeded, syscall.ETIMEDOUT),
}

// refusals are the domain's. Reading meets few of them; the rest is here so
// that each has an answer when a later file of the tree does.
var refusals = map[runs.Code]syscall.Errno{
	runs.UnknownRun:     syscall.ENOENT,
	runs.UnknownPayload: syscall.ENOENT,

	runs.BadID:     syscall.EINVAL,
	runs.BadName:   syscall.EINVAL,
	runs.BadLabel:  syscall.EINVAL,
	runs.BadCursor: syscall.EINVAL,

	runs.NotOwner: syscall.EACCES,
}
