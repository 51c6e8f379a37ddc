package fusefs

import (
	"sync"

	"durafs/view"
)

// HandlesMax bounds the open files that hold something: the text of a record,
// the reader of a payload. Logs hold nothing and are not counted.
const HandlesMax = 1 << 16

// MomentBytesMax bounds the bytes that open records and statuses hold.
const MomentBytesMax = 256 << 20

// handles are the open files by number. A number that is not there is not an
// error: whoever reads by it gets the node's content of now. So a log needs
// none, and readers outlive a restart of the process that opened for them.
type handles struct {
	mu     sync.Mutex
	open   map[uint64]held
	next   uint64
	moment int64 // bytes of moments
}

type held struct {
	view.Handle
	moment int64
}

// add keeps a handle; moment is how many bytes of memory it holds.
func (h *handles) add(v view.Handle, moment int64) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) >= HandlesMax || h.moment+moment > MomentBytesMax {
		return 0, ErrHandles
	}
	if h.open == nil {
		h.open = make(map[uint64]held)
	}
	h.next++
	h.open[h.next] = held{v, moment}
	h.moment += moment
	return h.next, nil
}

func (h *handles) get(fh uint64) (view.Handle, bool) {
	if fh == 0 {
		return nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v, ok := h.open[fh]
	return v.Handle, ok
}

func (h *handles) drop(fh uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moment -= h.open[fh].moment
	delete(h.open, fh)
}

func (h *handles) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}
