package store

import (
	"fmt"

	"durafs/internal/dirlock"
)

// HeldError says that another process has the store open.
type HeldError = dirlock.HeldError

// ForeignError says that a directory is not a store and not empty either.
// Nothing in it was touched.
type ForeignError struct {
	Dir  string
	Name string // something found in it
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is not a durafs store: it has no store.json, but holds %q; name an empty or new directory", e.Dir, e.Name)
}

// FutureError says that the store was written by a later durafs.
type FutureError struct {
	Path    string
	Version int
}

func (e *FutureError) Error() string {
	return fmt.Sprintf("%s has format version %d; this durafs knows versions up to %d: use the newer durafs that wrote it", e.Path, e.Version, FormatVersion)
}

// ConfigError says that store.json is not what was once written, or that the
// disk cannot read it any more: then Err is why.
type ConfigError struct {
	Path   string
	Reason string
	Err    error
}

// Unwrap is why it cannot be read, nil where it can.
func (e *ConfigError) Unwrap() error { return e.Err }

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s is damaged: %s; restore it from a copy, nothing was touched", e.Path, e.Reason)
}

// FilesystemError says that the store lies where locks or syncs cannot be
// trusted.
type FilesystemError struct {
	Dir  string
	Type string
}

func (e *FilesystemError) Error() string {
	return fmt.Sprintf("%s lies on %s, where locks and syncs cannot be trusted to survive a crash; use a local disk, or --unsafe-filesystem", e.Dir, e.Type)
}
