package server

import (
	"net/http"
	"sync"
	"sync/atomic"

	"durafs/control"
)

// copyBytes is the size of the buffers that bodies go through.
const copyBytes = 256 << 10

var buffers = sync.Pool{New: func() any {
	b := make([]byte, copyBytes)
	return &b
}}

// budget bounds what bodies that are large take of memory, all together: each
// is within its own bound, and a thousand of them at once would still be more
// than a machine has.
type budget struct {
	max  int64
	used atomic.Int64
}

// take takes n bytes, or says that there is no room for them now.
func (b *budget) take(n int) error {
	if b.used.Add(int64(n)) <= b.max {
		return nil
	}
	b.give(n)
	p := problem(http.StatusServiceUnavailable, control.CodeBusy, "more large rows are being sent than the daemon holds in memory; nothing of this one was taken")
	p.Limit, p.Retryable = b.max, true
	return p
}

func (b *budget) give(n int) { b.used.Add(int64(-n)) }

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) { buffers.Put(b) }
