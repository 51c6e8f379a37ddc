package wal

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"sync"

	"durafs/internal/vfs"
	"durafs/segment"
)

// loadedManifest is what the copies of a manifest say together.
type loadedManifest struct {
	state manifestState
	seq   uint64
	// none is true where there is no copy at all.
	none bool
	// notes name a copy that was not good, and why.
	notes []error
}

// loadedCopy is what one copy says, as far as it can be believed.
type loadedCopy struct {
	state manifestState
	seq   uint64 // 0: nothing
	// rest counts the frames that its snapshot still lacks.
	rest uint32
	// claims is the highest number that any of its frames calls committed.
	claims uint64
	err    error // why it ends where it ends, nil at zeros
}

// loadManifest reads both copies and takes the one that says more. An edit
// that one of them calls committed and neither has is damage.
//
// sync says that the files are to be synced first, and read past the page
// cache: what an earlier process wrote may not be what the disk has.
func loadManifest(fsys vfs.FS, dir string, storeID [16]byte, sync bool) (loadedManifest, error) {
	var m loadedManifest
	var claims uint64
	var behind [len(manifestNames)]uint64
	missing := 0
	for i, name := range manifestNames {
		c, err := loadCopy(fsys, filepath.Join(dir, name), storeID, sync)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing++
			m.notes = append(m.notes, damageAt(name, 0, 0, 0, err))
			continue
		case err != nil:
			return m, err
		}
		if c.err != nil {
			m.notes = append(m.notes, damageAt(name, 0, 0, 0, c.err))
		}
		claims = max(claims, c.claims)
		if behind[i] = c.seq; c.err != nil {
			behind[i] = math.MaxUint64 // noted already
		}
		if c.seq > m.seq {
			m.seq, m.state = c.seq, c.state
		}
	}
	for i, seq := range behind {
		if seq > 0 && seq < claims {
			m.notes = append(m.notes, &DamageError{File: manifestNames[i], Reason: "committed edits are missing in this copy"})
		}
	}
	switch {
	case missing == len(manifestNames):
		m.none, m.state = true, newManifestState()
		return m, nil
	case m.seq == 0:
		return m, &DamageError{File: manifestNames[0], Reason: "neither copy of the manifest can be read", Err: errors.Join(m.notes...)}
	case claims > m.seq:
		return m, &DamageError{File: manifestNames[0], Reason: "committed edits are missing in both copies of the manifest", Err: errors.Join(m.notes...)}
	}
	return m, nil
}

// loadCopy reads one copy as far as it checks. It returns an error for a file
// from a later version, of another store, or missing; everything else it notes
// in the copy.
func loadCopy(fsys vfs.FS, name string, storeID [16]byte, sync bool) (c loadedCopy, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
		return loadedCopy{err: err}, nil
	}
	defer f.Close()
	read := f.ReadAt
	if sync {
		if err := f.Datasync(); err != nil {
			return c, err
		}
		read = f.ReadUncachedAt
	}
	h, err := readHeader(read, segment.ManifestFile, storeID)
	if err != nil {
		if fromLaterVersion(err) || errors.Is(err, errOtherStore) {
			return c, damageAt(filepath.Base(name), 0, 0, 0, err)
		}
		return loadedCopy{err: err}, nil
	}
	size, err := f.Size()
	if err != nil {
		return loadedCopy{err: err}, nil
	}
	c.state = newManifestState()
	w := segment.NewWalker(read, segment.NewKey(h.Salt), segment.HeaderBytes, size, 0)
	defer w.Close()
	w.FreeStart()
	if err := c.walk(w); fromLaterVersion(err) {
		return c, damageAt(filepath.Base(name), w.Offset(), 0, 0, err)
	}
	return c, nil
}

// walk adds up the frames of a copy, and what those behind the last valid one
// still claim. A frame that checks was written whole: where what it says makes
// no sense, it is not one in flight, and counts as committed.
func (c *loadedCopy) walk(w *segment.Walker) error {
	for {
		f, err := w.Next()
		if err == nil {
			if err = c.apply(f); err == nil {
				continue
			}
			c.claims, c.err = f.LSN, err
		}
		c.claims = max(c.claims, w.Durable)
		if fromLaterVersion(err) {
			return err
		}
		if claims, found, claimsErr := w.Claims(); fromLaterVersion(claimsErr) {
			return claimsErr
		} else if claimsErr != nil {
			c.err = claimsErr
		} else if found {
			c.claims = max(c.claims, claims)
			c.err = err
		}
		if c.seq == 0 && c.err == nil {
			c.err = err
			if errors.Is(err, io.EOF) {
				c.err = &segment.InvalidError{Offset: w.Offset(), Reason: "no frame is there"}
			}
		}
		return nil
	}
}

func (c *loadedCopy) apply(f segment.Frame) error {
	if f.Kind == segment.Pad || f.Kind == segment.Barrier {
		return nil // what it calls committed the walk notes
	}
	if f.Kind != segment.Manifest {
		return &segment.InvalidError{Offset: f.Offset, Reason: "not a frame of a manifest"}
	}
	edits, err := parseEdits(f.Payload)
	if fromLaterVersion(err) {
		return err
	}
	if err != nil || len(edits) == 0 || len(edits) != int(f.Count) {
		return &segment.InvalidError{Offset: f.Offset, Reason: errBadEdit.Error()}
	}
	for _, e := range edits {
		if err := e.apply(&c.state); err != nil {
			return &segment.InvalidError{Offset: f.Offset, Reason: err.Error()}
		}
	}
	if first, ok := edits[0].(beginSnapshot); ok {
		c.rest = uint32(first)
	}
	if c.rest > 0 {
		c.rest--
	}
	if c.rest == 0 {
		c.seq = f.LSN
	}
	return nil
}

var errOtherStore = errors.New("the file belongs to another store")

// headers are blocks to read headers into: an open reads that of every segment.
var headers = sync.Pool{New: func() any { return new([segment.HeaderBytes]byte) }}

// readHeader reads and checks a file's header block.
func readHeader(read func([]byte, int64) (int, error), kind segment.FileKind, storeID [16]byte) (segment.Header, error) {
	b := headers.Get().(*[segment.HeaderBytes]byte)
	defer headers.Put(b)
	n, err := read(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return segment.Header{}, err
	}
	h, err := segment.ParseHeader(b[:n])
	switch {
	case err != nil:
		return h, err
	case h.Kind != kind:
		return h, &segment.InvalidError{Reason: "a file of another kind"}
	case h.StoreID != storeID:
		return h, errOtherStore
	}
	return h, nil
}

func fromLaterVersion(err error) bool {
	var future *FutureVersionError
	return errors.Is(err, ErrUnknownFlag) || errors.As(err, &future)
}
