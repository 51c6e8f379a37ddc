package crash

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"durafs/wal"
)

// Seal is Roll with something in the footers: what an open loads from them
// stands for the batches, alone or for those of the segments before too, and
// has to be what the batches are.
func Seal() *Driver {
	w := logWork{batches: 24, inFlight: 2, segment: 4 << 12, lives: 3, footers: true, bytes: func(uint64) int { return 1500 }}
	return w.driver("seal", "footers that stand for the batches of sealed segments, merged and not")
}

// sums is what this driver keeps in footers: of each batch its LSN and a
// checksum, in 12 bytes. Each other segment takes over those before it.
type sums struct {
	w     *logWork
	m     *logModel
	o     *opened
	log   *wal.Log // set once it is open
	wrong error
}

const (
	sumsSection = 1
	sumBytes    = 12
)

// Derive implements wal.Derived.
func (s *sums) Derive(seg uint32, batches wal.Batches, w *wal.FooterWriter) error {
	w.Begin(99) // nobody knows it
	if _, err := w.Write(make([]byte, 5000)); err != nil {
		return err
	}
	var b []byte
	from := seg
	if seg%2 == 0 {
		if before, ok := s.before(seg); ok {
			from, b = before.from, before.sums
		}
	}
	err := batches(func(f wal.Frame) error {
		b = binary.LittleEndian.AppendUint64(b, f.LSN)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(f.Payload, castagnoli))
		return nil
	}, isLost)
	if err != nil {
		return err
	}
	w.Begin(sumsSection)
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, from), b...))
	return err
}

type sumsOf struct {
	from uint32
	sums []byte
}

// before is what the footer of the segment before seg says.
func (s *sums) before(seg uint32) (sumsOf, bool) {
	if s.log == nil {
		return sumsOf{}, false
	}
	sections, ok := s.log.Sections(seg - 1)
	if !ok {
		return sumsOf{}, false
	}
	got, err := readSums(sections)
	return got, err == nil
}

func readSums(sections wal.Sections) (sumsOf, error) {
	r, ok := sections.Section(sumsSection)
	if !ok {
		return sumsOf{}, fmt.Errorf("there are no sums")
	}
	b, err := io.ReadAll(r)
	if err != nil || len(b) < 4 || (len(b)-4)%sumBytes != 0 {
		return sumsOf{}, fmt.Errorf("the sums have %d bytes (%w)", len(b), err)
	}
	return sumsOf{binary.LittleEndian.Uint32(b), b[4:]}, nil
}

// Sealed implements wal.Derived.
func (s *sums) Sealed(uint32) {}

// Covers implements wal.Derived.
func (s *sums) Covers(_ uint32, sections wal.Sections) uint32 {
	got, err := readSums(sections)
	if err != nil {
		return 0
	}
	return got.from
}

// Load implements wal.Derived: each batch that the footer tells of must be one
// that was tried.
func (s *sums) Load(_ uint32, sections wal.Sections) error {
	got, err := readSums(sections)
	if err != nil {
		return err
	}
	for b := got.sums; len(b) > 0; b = b[sumBytes:] {
		s.take(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]))
	}
	return nil
}

func (s *sums) take(lsn uint64, sum uint32) {
	if lsn != s.o.last()+1 {
		s.wrong = fmt.Errorf("in a footer LSN %d follows %d", lsn, s.o.last())
		return
	}
	for life, to := range s.m.tried {
		if body := s.w.body(lsn, life); lsn <= to && crc32.Checksum(body, castagnoli) == sum {
			s.o.chains = append(s.o.chains, uint64(crc32.Update(uint32(s.o.chains[s.o.last()]), castagnoli, body)))
			return
		}
	}
	s.wrong = fmt.Errorf("LSN %d is in a footer, and nobody wrote that", lsn)
}

// Walk implements wal.Derived.
func (s *sums) Walk(_ uint32, batches wal.Batches) error {
	return batches(func(f wal.Frame) error {
		s.take(f.LSN, crc32.Checksum(f.Payload, castagnoli))
		return nil
	}, isLost)
}

// isLost is the answer to a batch that is lost: there is none where nothing
// rots.
func isLost(d *wal.DamageError) error { return d }

// LeftOut implements wal.Derived.
func (s *sums) LeftOut() []uint32 { return nil }

// ReplayLeftOut implements wal.Derived.
func (s *sums) ReplayLeftOut(uint32) (func(uint64) bool, func(wal.Frame) error) {
	panic("nothing was left out")
}

// Forget implements wal.Derived.
func (s *sums) Forget() { s.o.chains, s.wrong = s.o.chains[:1], nil }

// Numbers implements wal.Derived.
func (s *sums) Numbers() wal.Numbers { return wal.Numbers{} }
