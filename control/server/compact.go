package server

import "net/http"

// CompactDone tells of a compaction: how many packs there were, how many of them
// are gone, what was moved out of them, and how much room that gave back. Pinned
// packs stayed, since something in them is damaged.
type CompactDone struct {
	Packs        int   `json:"packs"`
	PacksFreed   int   `json:"packs_freed"`
	PacksPinned  int   `json:"packs_pinned"`
	RecordsMoved int64 `json:"records_moved"`
	BytesMoved   int64 `json:"bytes_moved"`
	BytesFreed   int64 `json:"bytes_freed"`
}

// compact is POST /v1/compact.
func (r *request) compact() error {
	if r.s.opt.Compact == nil {
		return noRoute(r)
	}
	var body struct{}
	if err := r.envelope(&body); err != nil {
		return err
	}
	done, err := r.s.opt.Compact(r.Context())
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, done)
}
