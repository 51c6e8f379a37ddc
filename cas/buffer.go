package cas

// buffer holds one record while it is made: a chunk as it was read, with room
// for a header before it and for the alignment behind it, so that a chunk that
// does not shrink is written from where it was read; and its compressed form,
// with the same room.
type buffer struct {
	raw     [recordHeaderBytes + ChunkBytes + recordAlign]byte
	packed  [recordHeaderBytes + ChunkBytes + ChunkBytes/8 + recordAlign]byte
	scratch [ChunkBytes]byte
}

func newBuffer() *buffer { return new(buffer) }

func (s *Store) getBuffer() *buffer  { return s.buffers.Get().(*buffer) }
func (s *Store) putBuffer(b *buffer) { s.buffers.Put(b) }

// chunk is where up to n bytes of a payload are read into.
func (b *buffer) chunk(n int) []byte { return b.raw[recordHeaderBytes:][:n] }

// record returns the bytes of a record whose body of n bytes lies in b behind
// the header's room, with zeros up to the alignment.
func record(b []byte, n int) []byte {
	end := recordHeaderBytes + n
	aligned := (end + recordAlign - 1) &^ (recordAlign - 1)
	clear(b[end:aligned])
	return b[:aligned]
}
