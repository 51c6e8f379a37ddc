package store

import (
	"path/filepath"

	"durafs/cas"
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
