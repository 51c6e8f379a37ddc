package wal

import "fmt"

// Packs lists the packs that are known, in the order of their numbers.
func (l *Log) Packs() []Pack {
	s := l.man.current()
	return s.sortedPacks()
}

// AddPack makes a new pack known; it is durable on return. Its number must be
// above HighWater().Pack. *NoSpaceError means that nothing was changed.
func (l *Log) AddPack(p Pack) error {
	if high := l.HighWater(); p.Seq <= high.Pack {
		return fmt.Errorf("wal: pack %d: numbers up to %d were given already", p.Seq, high.Pack)
	}
	return l.man.commit(setPack(p))
}

// SealPack says how a pack ended, its size and hash; it is durable on return.
// One of 0 bytes is gone, and not listed any more.
func (l *Log) SealPack(p Pack) error {
	p.Sealed = true
	s := l.man.current()
	if _, known := s.packs[p.Seq]; !known {
		return fmt.Errorf("wal: pack %d is not known", p.Seq)
	}
	if p.Bytes == 0 {
		return l.man.commit(dropPack(p.Seq))
	}
	return l.man.commit(setPack(p))
}

// HighWater tells the highest numbers that were ever given. Its LSN is that of
// the log, not only what the manifest noted.
func (l *Log) HighWater() HighWater {
	h := l.man.current().high
	h.LSN = max(h.LSN, l.durable.Load())
	return h
}
