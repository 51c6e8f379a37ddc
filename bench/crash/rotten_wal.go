package crash

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"durafs/internal/vfs/simdisk"
	"durafs/segment"
	"durafs/wal"
)

// rotten opens a log that has rotted: as usual, and where that is refused
// read-only. Each batch is there, right, or named as lost; behind a kill the
// last group alone may pass for one that was in flight.
func (w *logWork) rotten(l *Life) error {
	err := w.openRotten(l, nil)
	var d *wal.DamageError
	var future *wal.FutureVersionError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &future):
		return fmt.Errorf("rot is taken for a later version: %w", err)
	case !errors.As(err, &d):
		return err
	}
	// Named. What is sound can be shown all the same.
	err = w.openRotten(l, d)
	if err != nil && errors.As(err, &d) {
		return fmt.Errorf("read-only: %w", err)
	}
	return err
}

// lost are LSNs that a log named as damaged.
type lost [][2]uint64

func (l lost) has(lsn uint64) bool {
	for _, r := range l {
		if r[0] <= lsn && lsn <= r[1] {
			return true
		}
	}
	return false
}

func (w *logWork) openRotten(l *Life, why *wal.DamageError) error {
	m := modelOfLog(l.Promises())
	o := w.options(l)
	var gone lost
	o.Damaged = func(d *wal.DamageError) error {
		gone = append(gone, [2]uint64{d.LSNFrom, d.LSNTo})
		return nil
	}
	if why != nil {
		o.ReadOnly = why
		gone = append(gone, [2]uint64{why.LSNFrom, why.LSNTo})
	}
	var wrong error
	last, there := uint64(0), map[uint64]uint32{}
	log, _, err := wal.Open(context.Background(), o, func(f wal.Frame) error {
		if f.LSN <= last {
			wrong = fmt.Errorf("LSN %d is shown after %d", f.LSN, last)
			return wrong
		}
		last = f.LSN
		there[f.LSN] = crc32.Checksum(f.Payload, castagnoli)
		for life, to := range m.tried {
			if f.LSN <= to && string(f.Payload) == string(w.body(f.LSN, life)) {
				return nil
			}
		}
		wrong = fmt.Errorf("LSN %d is shown as %.40q", f.LSN, f.Payload)
		return wrong
	})
	if wrong != nil {
		return wrong
	}
	if err != nil {
		return err
	}
	l.Kill()
	log.Close(context.Background())
	for lsn := uint64(1); lsn <= w.mustBeNamed(l, m); lsn++ {
		if _, ok := there[lsn]; !ok && !gone.has(lsn) && !gone.endsAt(last, lsn) {
			return fmt.Errorf("LSN %d is neither there nor named as lost (%v)", lsn, gone)
		}
	}
	return nil
}

// mustBeNamed is up to which LSN a loss has to be named. After a kill the last
// group, whose barrier nothing vouches for, may pass for one in flight; and so
// may those before it where damage harms them in one piece. Not where a block
// cannot be read: recovery was told so, and takes nothing that may lie there for
// what was in flight.
func (w *logWork) mustBeNamed(l *Life, m *logModel) uint64 {
	if l.Closes || l.Rot.Kind == simdisk.RotUnread {
		return m.atLeast
	}
	must := m.atLeast - min(m.atLeast, uint64(w.inFlight))
	if l.Rot.Kind != simdisk.RotPage && l.Rot.Kind != simdisk.RotAstray {
		return must
	}
	for room := int64(simdisk.BlockBytes); must > 0 && room > 0; must-- {
		room -= segment.FrameBytes(int64(w.bytes(must)))
	}
	return must
}

// endsAt says that the log's end is named as damaged, however long it was: what
// was lost begins behind the last batch that is there, and lsn is further on.
func (l lost) endsAt(last, lsn uint64) bool {
	for _, r := range l {
		if r[0] > last && r[0] <= lsn {
			return true
		}
	}
	return false
}
