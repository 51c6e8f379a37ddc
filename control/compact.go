package control

import (
	"context"
	"net/http"
)

// CompactDone tells of a compaction: how many packs there were, how many of them
// are gone, what was moved out of them, and by how much all packs together are
// smaller now. Pinned packs stayed, since something in them is damaged.
type CompactDone struct {
	Packs        int   `json:"packs"`
	PacksFreed   int   `json:"packs_freed"`
	PacksPinned  int   `json:"packs_pinned"`
	RecordsMoved int64 `json:"records_moved"`
	BytesMoved   int64 `json:"bytes_moved"`
	BytesFreed   int64 `json:"bytes_freed"`
}

// Compact gives back the room of all that nothing refers to in the packs of
// payloads, and returns when that is done. Everything else goes on meanwhile. It
// is not repeated when the connection breaks: the daemon gives it up then. It
// needs an owner.
func (c *Client) Compact(ctx context.Context) (CompactDone, error) {
	var done CompactDone
	k, err := jsonCall(http.MethodPost, "/v1/compact", struct{}{})
	if err == nil {
		_, err = c.answer(ctx, k, &done)
	}
	return done, err
}
