package runs

import (
	"errors"
	"fmt"
	"io"

	"durafs/cas"
)

// PayloadError is a payload of which bytes cannot be read any more. The run is
// not stopped by that: what it was told and has said is known, and a put of the
// same bytes, by whomever, heals every reference to them.
type PayloadError struct {
	Run  string // id
	Name string
	Err  error // wraps *cas.DamageError or cas.ErrNotFound
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("runs: payload %s of run %s: %v", e.Name, e.Run, e.Err)
}

func (e *PayloadError) Unwrap() error { return e.Err }

// payloadReader reads a payload whose bytes are in packs, and tells whose it is
// when they are not what was stored.
type payloadReader struct {
	PayloadReader
	store *Store
	num   uint32
	name  string
}

func (r *payloadReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.PayloadReader.ReadAt(p, off)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, r.store.payloadErr(r.num, r.name, err)
}

// payloadErr makes a *PayloadError of an error that says that bytes of a
// payload are gone, and remembers it; others stay what they are.
func (s *Store) payloadErr(num uint32, name string, err error) error {
	if _, damaged := errors.AsType[*cas.DamageError](err); !damaged && !errors.Is(err, cas.ErrNotFound) {
		return err
	}
	if _, gone := s.showPayload(Ref(num), name); CodeOf(gone) == PayloadDeleted {
		return gone // while it was read, and its bytes were swept
	}
	s.mu.Lock()
	id := s.index.id(num)
	at := id + "/" + name
	news := !s.rotten[at] && len(s.rotten) < DamagePayloadsMax
	if news {
		s.rotten[at] = true
	}
	s.mu.Unlock()
	if news {
		s.logger.Error("a payload cannot be read", "run", id, "payload", name, "error", err)
	}
	return &PayloadError{Run: id, Name: name, Err: err}
}
