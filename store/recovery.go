package store

import (
	"path/filepath"

	"durafs/cas"
	"durafs/runs"
	"durafs/wal"
)

// Recovery tells what opening the store found and did.
type Recovery struct {
	Created     bool   `json:"created"`
	Batches     uint64 `json:"batches"` // replayed
	Bytes       int64  `json:"bytes"`   // read for it
	TookMS      int64  `json:"took_ms"`
	Cut         []Cut  `json:"cut,omitempty"`
	Interrupted int    `json:"interrupted"` // runs of a former boot
	Settled     int    `json:"settled"`     // settlements that a crash had cut short
	// Lost are the batches that were stored and cannot be read, at most 1000
	// of them, and LostCount counts them all.
	Lost      []Lost `json:"lost,omitempty"`
	LostCount int    `json:"lost_count,omitempty"`
	// ReadOnly is why the store is open for reading only, "" if it is not.
	ReadOnly string `json:"read_only,omitempty"`
	// Notes are faults that harm no acknowledged data, or that are named here
	// and leave everything else readable.
	Notes []string `json:"notes,omitempty"`
}

// Cut is an unacknowledged end that recovery did not keep.
type Cut struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	LSN    uint64 `json:"lsn"` // the first batch that was not kept
	Reason string `json:"reason"`
}

// Lost is a batch, or several, that were stored and cannot be read.
type Lost struct {
	File    string `json:"file"`
	Offset  int64  `json:"offset"`
	LSNFrom uint64 `json:"lsn_from"`
	LSNTo   uint64 `json:"lsn_to"`
	// Run is the run that it harms, "" where its start is what is lost, and
	// where it may be any; RunNumber is 0 in the latter case only.
	Run       string `json:"run,omitempty"`
	RunNumber uint64 `json:"run_number,omitempty"`
	Reason    string `json:"reason"`
}

// lostMax bounds Recovery.Lost.
const lostMax = 1000

// lost takes note of a batch that the log has lost, and tells the domain.
func (s *Store) lost(d *wal.DamageError) error {
	r := &s.recovery
	if r.LostCount++; r.LostCount <= lostMax {
		r.Lost = append(r.Lost, Lost{
			File: filepath.Join(walName, filepath.Base(d.File)), Offset: d.Offset, LSNFrom: d.LSNFrom, LSNTo: d.LSNTo,
			RunNumber: d.Run, Reason: d.Reason,
		})
	}
	return s.runs.ReplayLost(d)
}

// nameLost tells which runs the lost batches were of.
func (s *Store) nameLost() {
	for i := range s.recovery.Lost {
		l := &s.recovery.Lost[i]
		if run, ok := s.runs.Info(runs.Ref(l.RunNumber)); ok && l.RunNumber > 0 {
			l.Run = run.ID
		}
	}
}

func (r *Recovery) addLog(found wal.Recovery) {
	r.Batches, r.Bytes = found.Batches, found.Bytes
	if c := found.Cut; c != nil {
		r.Cut = append(r.Cut, Cut{File: filepath.Base(c.File), Offset: c.Offset, LSN: c.LSN, Reason: c.Reason})
	}
	for _, err := range found.Notes {
		r.Notes = append(r.Notes, err.Error())
	}
}

func (r *Recovery) addChunks(found cas.Recovery) {
	for _, err := range found.Damage {
		r.Notes = append(r.Notes, err.Error())
	}
	for _, name := range found.Orphans {
		r.Notes = append(r.Notes, "cas/"+filepath.Base(name)+" is no pack of this store; it was left alone")
	}
}
