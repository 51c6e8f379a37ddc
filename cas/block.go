package cas

import (
	"sync"
	"sync/atomic"
)

const (
	// slotBytes is the room that a chunk has in a block: its record's header
	// before it, and the record's alignment behind it.
	slotBytes = recordHeaderBytes + ChunkBytes
	// blockChunks is how much of a payload is handled at a time. Written at
	// once, 512 KiB cost a file system half as much as eight times 64 KiB: in
	// larger folios, and as much less when they are written back.
	blockChunks = 8
)

// block is a stretch of a payload on its way into a pack: chunks, each read
// into a slot of its own. A chunk that shrinks is put back into its slot as it
// is stored, so that the records only have to be moved together before they
// are written, and one that does not shrink is written from where it was read.
type block struct {
	slots []byte
	chunk []encoded

	job   *job // of the encoders, while they have it
	token bool // it is one beyond the put's first
}

// encoded is a chunk of a block.
type encoded struct {
	hdr recordHeader // with the raw length from the time it was read
	at  place        // where it is stored, as soon as that is known

	seen uint64 // up to where the store was searched for it, as a slot's place
}

// newBlock has room for n chunks.
func newBlock(n int) *block {
	return &block{slots: make([]byte, n*slotBytes), chunk: make([]encoded, 0, n)}
}

func (b *block) slot(i int) []byte { return b.slots[i*slotBytes:][:slotBytes] }

// raw is a chunk as it was read.
func (b *block) raw(i int) []byte { return b.slot(i)[recordHeaderBytes:][:b.chunk[i].hdr.Raw] }

// room is where the next chunk of up to n bytes is read into.
func (b *block) room(n int) []byte { return b.slot(len(b.chunk))[recordHeaderBytes:][:n] }

func (b *block) full() bool { return len(b.chunk) == cap(b.chunk) }

// add takes the n bytes that were read into room.
func (b *block) add(n int) {
	b.chunk = append(b.chunk, encoded{hdr: recordHeader{Raw: uint32(n), Stored: uint32(n), Kind: kindChunk}})
}

// set makes body a chunk's stored form.
func (b *block) set(i int, c codec, body []byte) {
	b.chunk[i].hdr.Codec, b.chunk[i].hdr.Stored = c, uint32(len(body))
	copy(b.slot(i)[recordHeaderBytes:], body)
}

// close zeroes the bytes behind a body that has its last form.
func (b *block) close(i int) {
	h := &b.chunk[i].hdr
	end := recordHeaderBytes + int(h.Stored)
	clear(b.slot(i)[end:h.bytes()])
	h.CRC = checksum(b.slot(i)[recordHeaderBytes:end])
}

func (s *Store) getBlock(chunks int) *block {
	b := s.pool(chunks).Get().(*block)
	b.chunk, b.job, b.token = b.chunk[:0], nil, false
	return b
}

func (s *Store) putBlock(b *block) { s.pool(cap(b.chunk)).Put(b) }

func (s *Store) pool(chunks int) *sync.Pool {
	if chunks == 1 {
		return &s.single
	}
	return &s.several
}

// workspace is what encoding or reading one chunk needs besides.
type workspace struct {
	packed [recordHeaderBytes + ChunkBytes + ChunkBytes/8]byte
	back   [ChunkBytes + decodeSlack]byte
}

func (s *Store) getWorkspace() *workspace  { return s.spaces.Get().(*workspace) }
func (s *Store) putWorkspace(w *workspace) { s.spaces.Put(w) }

// job is a block in the encoders. Workers and the put itself take chunk after
// chunk of it. It is made anew each time: a worker that comes late finds
// nothing left in it, whatever became of the block.
type job struct {
	b    *block
	n    int32
	next atomic.Int32
	left atomic.Int32
	done chan struct{} // closed when all is encoded
}

// submit gives b to the encoders; the block is theirs until job.done. Without
// help it is left to the put itself, and another processor to who commits.
func (s *Store) submit(b *block, help bool) {
	b.job = &job{b: b, n: int32(len(b.chunk)), done: make(chan struct{})}
	b.job.left.Store(b.job.n)
	if help {
		s.workers.try(b.job.work(s))
	}
}

func (j *job) work(s *Store) func() { return func() { s.encode(j, nil) } }

// encode encodes what nobody else has taken yet, with rest, if it is not nil,
// behind each chunk of so many bytes.
func (s *Store) encode(j *job, rest func(bytes int)) {
	i := j.next.Add(1) - 1
	if i >= j.n {
		return
	}
	w := s.getWorkspace()
	defer s.putWorkspace(w)
	for ; i < j.n; i = j.next.Add(1) - 1 {
		bytes := len(j.b.raw(int(i)))
		s.encodeChunk(j.b, int(i), w)
		if rest != nil {
			rest(bytes)
		}
		if j.left.Add(-1) == 0 {
			close(j.done)
		}
	}
}

func (j *job) finished() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}
