package fusefs

import (
	"context"
	"errors"
	"syscall"

	"durafs/cas"
	"durafs/runs"
	"durafs/view"
	"durafs/wal"
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
	for _, row := range errnos {
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
	// ErrHandles: more files are open than HandlesMax, or MomentBytesMax.
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

// errnos is searched in order. Damage comes first: what it wraps is of the
// store's own files.
var errnos = []errnoRow{
	value("wal.ErrReadOnly", wal.ErrReadOnly, syscall.EROFS), // it wraps the damage that is why
	kind[*wal.DamageError]("wal.DamageError", syscall.EIO),
	kind[*runs.PayloadError]("runs.PayloadError", syscall.EIO),
	kind[*cas.DamageError]("cas.DamageError", syscall.EIO),
	value("cas.ErrNotFound", cas.ErrNotFound, syscall.EIO), // it is referred to, so it is lost
	kind[*cas.MissingError]("cas.MissingError", syscall.EIO),
	value("wal.ErrEnd", wal.ErrEnd, syscall.EIO),

	value("fusefs.ErrReadOnly", ErrReadOnly, syscall.EROFS),
	value("fusefs.ErrHandles", ErrHandles, syscall.ENFILE),

	value("view.ErrNotExist", view.ErrNotExist, syscall.ENOENT),
	value("view.ErrStale", view.ErrStale, syscall.ESTALE),
	value("view.ErrNotDir", view.ErrNotDir, syscall.ENOTDIR),
	value("view.ErrIsDir", view.ErrIsDir, syscall.EISDIR),
	value("view.ErrNotLink", view.ErrNotLink, syscall.EINVAL),
	value("view.ErrNameTooLong", view.ErrNameTooLong, syscall.ENAMETOOLONG),

	// A file that is open through a reset, or the end of the daemon: there may be
	// another one of its name by now.
	value("wal.ErrClosed", wal.ErrClosed, syscall.ESTALE),
	value("cas.ErrClosed", cas.ErrClosed, syscall.ESTALE),

	// Of a store that takes no more: what was there can mostly be read, and this
	// could not.
	value("wal.ErrPoisoned", wal.ErrPoisoned, syscall.EIO),
	value("wal.ErrUnknown", wal.ErrUnknown, syscall.EIO),
	value("wal.ErrRefused", wal.ErrRefused, syscall.EIO),
	value("wal.ErrUnknownFlag", wal.ErrUnknownFlag, syscall.EIO),
	kind[*wal.FutureVersionError]("wal.FutureVersionError", syscall.EIO),
	value("cas.ErrPoisoned", cas.ErrPoisoned, syscall.EIO),
	value("cas.ErrSweeping", cas.ErrSweeping, syscall.EIO),
	value("cas.ErrHeld", cas.ErrHeld, syscall.EIO),
	value("cas.ErrUnsure", cas.ErrUnsure, syscall.EIO),
	value("cas.ErrFormat", cas.ErrFormat, syscall.EIO),

	// Of writing, which a later file of the tree may meet.
	value("wal.ErrBusy", wal.ErrBusy, syscall.EAGAIN),
	value("wal.ErrTooLarge", wal.ErrTooLarge, syscall.EFBIG),
	kind[*wal.NoSpaceError]("wal.NoSpaceError", syscall.ENOSPC),
	kind[*cas.NoSpaceError]("cas.NoSpaceError", syscall.ENOSPC),

	value("context.Canceled", context.Canceled, syscall.EINTR),
	value("context.DeadlineExceeded", context.DeadlineExceeded, syscall.ETIMEDOUT),
}

// refusals are the domain's. Reading meets few of them; the rest is here so
// that each has its answer, and a new code is not forgotten.
var refusals = map[runs.Code]syscall.Errno{
	runs.UnknownRun:     syscall.ENOENT,
	runs.UnknownPayload: syscall.ENOENT,
	runs.PayloadDeleted: syscall.ENOENT,
	runs.UnknownCall:    syscall.ENOENT,
	runs.UnknownThread:  syscall.ENOENT,

	runs.UnknownDelivery: syscall.ENOENT,
	runs.UnknownSink:     syscall.ENOENT,
	runs.DeliveryOpen:    syscall.EAGAIN,

	runs.BadID:             syscall.EINVAL,
	runs.BadName:           syscall.EINVAL,
	runs.BadLabel:          syscall.EINVAL,
	runs.BadBinding:        syscall.EINVAL,
	runs.BadStatus:         syscall.EINVAL,
	runs.BadPhase:          syscall.EINVAL,
	runs.BadLease:          syscall.EINVAL,
	runs.BadReason:         syscall.EINVAL,
	runs.BadCursor:         syscall.EINVAL,
	runs.BadPolicy:         syscall.EINVAL,
	runs.BadCopy:           syscall.EINVAL,
	runs.RowNotObject:      syscall.EINVAL,
	runs.RowInvalid:        syscall.EINVAL,
	runs.ReservedName:      syscall.EINVAL,
	runs.KeyMissing:        syscall.EINVAL,
	runs.UnaccountedCalls:  syscall.EINVAL,
	runs.TargetNotEnrolled: syscall.EINVAL,

	runs.TooLarge:     syscall.EFBIG,
	runs.RowTooLarge:  syscall.EFBIG,
	runs.RunFull:      syscall.EDQUOT,
	runs.RunBytes:     syscall.EDQUOT,
	runs.StoreBytes:   syscall.EDQUOT,
	runs.TooManyCalls: syscall.EDQUOT,

	runs.NotOwner:        syscall.EACCES,
	runs.WriterRequired:  syscall.EACCES,
	runs.ResumeRequired:  syscall.EACCES,
	runs.WrongToken:      syscall.EACCES,
	runs.ProtectedSource: syscall.EACCES,

	runs.RunExists:           syscall.EEXIST,
	runs.KeyConflict:         syscall.EEXIST,
	runs.PayloadConflict:     syscall.EEXIST,
	runs.SettleConflict:      syscall.EEXIST,
	runs.CallExists:          syscall.EEXIST,
	runs.OutcomeConflict:     syscall.EEXIST,
	runs.IdempotencyMismatch: syscall.EEXIST,
	runs.IdempotencyInFlight: syscall.EAGAIN,

	runs.StaleWriter:         syscall.ESTALE,
	runs.RevisionMismatch:    syscall.ESTALE,
	runs.Finished:            syscall.EPERM,
	runs.AttachRequired:      syscall.EPERM,
	runs.WrongPhase:          syscall.EPERM,
	runs.RunDamaged:          syscall.EIO,
	runs.AgainRefused:        syscall.EPERM,
	runs.CallOpen:            syscall.EPERM,
	runs.RollbackRefused:     syscall.EPERM,
	runs.CopyRefused:         syscall.EPERM,
	runs.LogCompacted:        syscall.EPERM,
	runs.RunsActive:          syscall.EBUSY,
	runs.LockHeld:            syscall.EAGAIN,
	runs.ScopeMismatch:       syscall.EPERM,
	runs.BindingMismatch:     syscall.EPERM,
	runs.PermissionMissing:   syscall.EACCES,
	runs.AttachWindow:        syscall.EAGAIN,
	runs.CancelRequestedCode: syscall.ECANCELED,
}
