package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"durafs/cas"
	"durafs/internal/vfs/simdisk"
)

// rotten opens a chunk store that has rotted. A payload is read as it was, or
// its damage is told. Where only a footer is damaged, or what no payload refers
// to, none is harmed: footers are derived.
func (w *chunkWork) rotten(l *Life) error {
	w = &chunkWork{l: l}
	s, rec, refs, err := w.begin()
	if err != nil {
		return chunkDamage(err)
	}
	defer func() {
		l.Kill()
		_ = s.Close()
	}()
	spared := w.spared()
	for _, k := range refs {
		err := holds(s, k, true)
		if err == nil {
			// By its id alone it may not be found: what told of it is damaged.
			if err = holds(s, k, false); errors.Is(err, cas.ErrNotFound) && !spared {
				err = nil
			}
		}
		switch {
		case err == nil:
		case spared:
			return fmt.Errorf("only a footer is damaged: %w", err)
		case len(rec.Missing)+len(rec.Damage) > 0 && errors.Is(err, fs.ErrNotExist):
		default:
			if err := chunkDamage(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// chunkDamage is nil for an error that tells of damage.
func chunkDamage(err error) error {
	if _, ok := errors.AsType[*cas.DamageError](err); ok {
		return nil
	}
	return err
}

// spared tells whether only a footer is damaged. Where that begins stands in the
// last bytes of the file as it was: see package cas.
func (w *chunkWork) spared() bool {
	const trailerBytes, entriesAt = 64, 32
	from, rot := w.l.Rot.Off, w.l.Rot
	switch rot.Kind {
	case simdisk.RotBit:
	case simdisk.RotZeros, simdisk.RotNoise, simdisk.RotOther:
		from -= from % simdisk.SectorBytes
	default:
		return false
	}
	for _, p := range w.Packs() {
		if !p.Sealed || rot.File != "/"+p.B3.String()+".pack" {
			continue
		}
		f, err := w.l.sound.Open(rot.File)
		if err != nil {
			return false
		}
		defer f.Close()
		var b [trailerBytes]byte
		_, err = f.ReadAt(b[:], p.Bytes-trailerBytes)
		return err == nil && from >= int64(binary.LittleEndian.Uint32(b[entriesAt:]))
	}
	return false
}
