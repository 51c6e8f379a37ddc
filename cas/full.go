package cas

import (
	"errors"
	"syscall"
)

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// must does what has to succeed on a full disk too: ending a pack, so that an
// open is not held up. Where there is no space the ballast makes some, and it is
// tried once more. Payloads have no right to it: they are refused.
func (s *Store) must(do func() error) error {
	err := do()
	if err != nil && isNoSpace(err) && s.ballast.Free() {
		s.log.Warn("the disk is full; the chunk store's ballast was freed", "err", err)
		err = do()
	}
	return err
}

// refill makes the ballast again when there is space. The sealer calls it.
func (s *Store) refill() {
	if !s.ballast.Missing() || s.Healthy() != nil {
		return
	}
	if err := s.ballast.Fill(); err != nil && !isNoSpace(err) {
		s.log.Warn("the chunk store has no ballast yet", "err", err)
	}
}
