package store

import (
	"time"

	"durafs/runs"
)

// Barrier is one group commit of the log.
type Barrier struct {
	Took    time.Duration
	Batches int
	Bytes   int
}

// Status is what `durafs status` and GET /v1/status answer of the store.
type Status struct {
	Store         string           `json:"store"`
	StoreID       string           `json:"store_id"`
	FormatVersion int              `json:"format_version"`
	BootID        string           `json:"boot_id"`
	Health        string           `json:"health"` // "ok", or why not
	Policy        runs.PolicyState `json:"policy"`
	Runs          map[string]int   `json:"runs"` // by phase
	Log           LogStatus        `json:"log"`
	Chunks        ChunkStatus      `json:"chunks"`
	Damage        DamageStatus     `json:"damage"`
	Outbox        OutboxStatus     `json:"outbox"`
	Space         SpaceStatus      `json:"space"`
	Usage         runs.Usage       `json:"usage"`
	Recovery      Recovery         `json:"recovery"`
}

// DamageStatus tells which runs have lost something that was stored: all that
// is known of it now. What is damaged and was not read yet, verify finds.
type DamageStatus struct {
	Runs    int      `json:"runs"`
	IDs     []string `json:"ids,omitempty"`     // at most 100
	Unnamed int      `json:"unnamed,omitempty"` // whose start is lost
	AnyRun  bool     `json:"any_run,omitempty"` // it may be of any run that was not over
	// Payloads are those that readers found damaged, as run/name, at most 100;
	// their runs work.
	Payloads []string `json:"payloads,omitempty"`
}

// OutboxStatus counts the deliveries: ends of runs that sinks have not taken.
type OutboxStatus struct {
	Waiting int `json:"waiting"`
	Parked  int `json:"parked"` // for an owner, or for a sink that is not configured
}

// LogStatus counts what the log holds.
type LogStatus struct {
	DurableLSN uint64 `json:"durable_lsn"`
	Segments   int    `json:"segments"`
	Bytes      int64  `json:"bytes"`
}

// ChunkStatus counts what the chunk store holds.
type ChunkStatus struct {
	Packs int   `json:"packs"`
	Bytes int64 `json:"bytes"`
}

// SpaceStatus tells how full the store's file system is. Short says that new
// rows, starts and payloads are refused until there is space again.
type SpaceStatus struct {
	Mount      string `json:"mount"`
	SizeBytes  int64  `json:"size_bytes"`
	FreeBytes  int64  `json:"free_bytes"`
	FreeInodes int64  `json:"free_inodes"`
	Short      bool   `json:"short"`
}

// Status tells the state of the store now.
func (s *Store) Status() Status {
	st := Status{
		Store:         s.dir,
		StoreID:       s.config.Store.String(),
		FormatVersion: s.config.FormatVersion,
		BootID:        s.runs.BootID(),
		Health:        "ok",
		Policy:        s.runs.Policy(),
		Runs:          s.runs.Counts(),
		Usage:         s.runs.Usage(),
		Recovery:      s.recovery,
	}
	if err := s.Healthy(); err != nil {
		st.Health = err.Error()
	}
	d := s.runs.Damage()
	st.Damage = DamageStatus{Runs: d.Runs, IDs: d.IDs, Unnamed: d.Unnamed, AnyRun: d.AnyRun, Payloads: d.Payloads}
	st.Outbox.Waiting, st.Outbox.Parked = s.runs.OutboxCounts()
	log, chunks := s.log.Stats(), s.chunks.Stats()
	st.Log = LogStatus{DurableLSN: log.Durable, Segments: log.Segments, Bytes: log.SegmentBytes}
	st.Chunks = ChunkStatus{Packs: chunks.Packs, Bytes: chunks.PackBytes}
	st.Space = SpaceStatus{Mount: s.dir, FreeInodes: -1, Short: log.ShortOfSpace}
	if u, err := s.fs.Usage(s.dir); err == nil {
		st.Space.Mount, st.Space.SizeBytes = u.Mount, u.SizeBytes
		st.Space.FreeBytes, st.Space.FreeInodes = u.FreeBytes, u.FreeInodes
	}
	return st
}
