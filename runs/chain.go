package runs

import (
	"errors"
	"sync"

	"durafs/wal"
)

// Chain is the groups of rows of one stream, which may have several on their
// way (AppendStart) and must never have rows behind a gap: once one of them
// was refused, by whatever rule or failure, those behind it are refused too.
// It is known only at a barrier whether a group stands, so this is decided
// where the groups are accepted: a chain is cut in the same moment in which
// one of its groups is refused or taken back.
//
// The zero value is ready to use; it belongs to one stream of one run. EndChain
// ends it.
type Chain struct {
	// Guarded by Store.mu.
	lsn uint64 // of its newest accepted group
	cut bool
}

// errBehindGap is what a group of a chain gets that was cut before it. Who
// waits for the groups in their order has the reason already.
var errBehindGap = errors.New("runs: a group of rows before this one was refused")

// EndChain forgets a chain.
func (s *Store) EndChain(ch *Chain) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.acc.chains, ch)
}

// chained notes that a group of the chain was accepted, or found to be there
// already, in view of LSNs up to lsn; mu is held. ch may be nil.
func (s *Store) chained(ch *Chain, lsn uint64) {
	if ch != nil {
		ch.lsn = lsn
		s.acc.chains[ch] = struct{}{}
	}
}

// cutChains cuts the chains that lose a group; mu is held.
func (s *Store) cutChains() {
	for ch := range s.acc.chains {
		if ch.lsn > s.published {
			ch.cut = true
		}
	}
}

// bodies are the encoded rows of batches that the log is done with.
var bodies = sync.Pool{New: func() any {
	b := make([]byte, 0, rowBatchBytes+rowBatchBytes/4)
	return &b
}}

// newRowBatch is newBatch for rows: they are many, and their encoded form is
// of use only until the log has them.
func newRowBatch(run uint32, entries []entry) *wal.Batch {
	n := entriesBytes(entries)
	if n > rowBatchBytes+rowBatchBytes/4 {
		return newBatch(run, entries...)
	}
	body := appendEntries((*bodies.Get().(*[]byte))[:0], entries)
	return &wal.Batch{
		Run: uint64(run), Count: uint32(len(entries)), Body: body, BodyCRC: wal.Checksum(body),
		Value: &batch{entries: entries},
	}
}

// giveBodies gives back what newRowBatch took. The ticket of the batches has
// been resolved: the log does not look at them any more.
func giveBodies(batches []*wal.Batch) {
	for _, b := range batches {
		if cap(b.Body) == rowBatchBytes+rowBatchBytes/4 {
			body := b.Body[:0]
			b.Body = nil
			bodies.Put(&body)
		}
	}
}
