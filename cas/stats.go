package cas

import "sync/atomic"

type counters struct {
	puts, bytes, wasted, hits, records, stored, syncs atomic.Int64
}

// Stats counts what a store did since it was opened, and what it holds.
type Stats struct {
	Packs        int   // known, sealed or not
	PacksSealed  int   // of these, sealed
	PacksMissing int   // in the ledger and not in the directory
	PackBytes    int64 // of all packs

	Puts         int64
	PayloadBytes int64 // of these puts
	WastedBytes  int64 // of those that failed, at most
	ChunkHits    int64 // chunks that were stored already
	Records      int64 // written
	RecordBytes  int64 // of these, as stored
	Syncs        int64 // of packs' records
}

// Stats may be called at any time.
func (s *Store) Stats() Stats {
	st := Stats{
		Puts: s.stats.puts.Load(), PayloadBytes: s.stats.bytes.Load(), WastedBytes: s.stats.wasted.Load(), ChunkHits: s.stats.hits.Load(),
		Records: s.stats.records.Load(), RecordBytes: s.stats.stored.Load(), Syncs: s.stats.syncs.Load(),
	}
	for _, p := range s.newestFirst() {
		p.mu.Lock()
		st.Packs++
		st.PackBytes += p.written
		if p.sealed {
			st.PacksSealed++
		}
		if p.missing {
			st.PacksMissing++
		}
		p.mu.Unlock()
	}
	return st
}
