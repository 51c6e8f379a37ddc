package cas

import (
	"errors"
	"fmt"

	"durafs/internal/vfs"
)

var (
	// ErrPoisoned is the answer to every Put after a failed sync: what the
	// disk holds is not known any more. Reads go on.
	ErrPoisoned = errors.New("cas: a sync failed; the chunk store takes no more payloads")
	// ErrNotFound says that no pack holds the id.
	ErrNotFound = errors.New("cas: no such payload")
	// ErrClosed is the answer of a closed store.
	ErrClosed = errors.New("cas: closed")
	// ErrSweeping is the answer to a Sweep while another one runs.
	ErrSweeping = errors.New("cas: a sweep runs already")
	// ErrHeld says that requests which may refer to what a sweep would remove did
	// not end in time.
	ErrHeld = errors.New("cas: requests that may refer to what would go have not ended yet")
	// ErrUnsure says that some of what refers to payloads cannot be read, so that
	// a sweep cannot tell what may go.
	ErrUnsure = errors.New("cas: what refers to payloads cannot be read as a whole, so nothing is removed")
	// ErrFormat says that a file has a version or flag of a later release. It
	// is not damage.
	ErrFormat = errors.New("cas: format of a later version")
)

// NoSpaceError says that a payload found no room. The next Put tries again.
type NoSpaceError struct {
	Mount      string
	FreeBytes  int64
	FreeInodes int64 // -1 where the file system does not count them
	Err        error
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("cas: no space on %s (%d bytes, %d inodes free): %v", e.Mount, e.FreeBytes, e.FreeInodes, e.Err)
}

func (e *NoSpaceError) Unwrap() error { return e.Err }

// DamageError says that bytes of the store are not what was stored there.
type DamageError struct {
	File   string // path of the pack
	Offset int64
	ID     ID // what was asked for there; zero if not known
	Reason string
	Err    error // what the operating system said, if it did
}

func (e *DamageError) Error() string {
	s := fmt.Sprintf("cas: damage in %s at offset %d: %s", e.File, e.Offset, e.Reason)
	if e.ID != (ID{}) {
		s += " (id " + e.ID.String() + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *DamageError) Unwrap() error { return e.Err }

// noSpace makes a *NoSpaceError of an error that means a full disk or quota,
// and leaves others as they are.
func noSpace(fsys vfs.FS, dir string, err error) error {
	if !isNoSpace(err) {
		return err
	}
	var already *NoSpaceError
	if errors.As(err, &already) {
		return err
	}
	e := &NoSpaceError{Mount: dir, FreeInodes: -1, Err: err}
	if u, uerr := fsys.Usage(dir); uerr == nil {
		e.Mount, e.FreeBytes, e.FreeInodes = u.Mount, u.FreeBytes, u.FreeInodes
	}
	return e
}
