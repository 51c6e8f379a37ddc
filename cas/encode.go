package cas

// encoded is a chunk on its way into a pack.
type encoded struct {
	buf  *buffer
	n    int // bytes of the chunk
	id   ID
	dup  place // where it is stored already, if dup.p is set
	hdr  recordHeader
	rec  []byte        // in buf
	done chan struct{} // closed when the fields above are set

	token bool          // it has one, and may wait beside others
	kept  chan struct{} // closed when it left the line; nil with a token
}

// encodeChunk hashes, looks up and compresses a chunk.
func (s *Store) encodeChunk(e *encoded) {
	raw := e.buf.chunk(e.n)
	e.id = Sum(raw)
	if at, ok := s.duplicate(e.id, raw, e.buf.scratch[:]); ok {
		s.stats.hits.Add(1)
		e.dup = at
		return
	}
	e.hdr = recordHeader{Stored: uint32(e.n), Raw: uint32(e.n), Codec: codecRaw, Kind: kindChunk, ID: e.id}
	body := e.buf.raw[:]
	packed, ok := s.codec.encode(e.buf.packed[:recordHeaderBytes], raw, e.buf.scratch[:])
	if ok {
		body = packed[:cap(packed)]
		e.hdr.Codec, e.hdr.Stored = codecZstd, uint32(len(packed)-recordHeaderBytes)
	}
	e.rec = record(body, int(e.hdr.Stored))
	e.hdr.CRC = checksum(e.rec[recordHeaderBytes:][:e.hdr.Stored])
}
