package wal

import "durafs/segment"

// pad lets the next group begin a block of its own, where the options ask for
// that: frames laid out in buf, for offset pos, are followed by a pad frame up
// to the block's end. So no block is written again that holds what is durable,
// and a disk that destroys a block when the power goes while it is rewritten
// destroys nothing that was acknowledged.
//
// At the end of a segment there may be no room for a pad; then there is none
// for another frame either.
func (l *Log) pad(buf []byte, h *segment.FrameHeader, key segment.Key, pos, size int64) []byte {
	block := l.opts.PadBytes
	end := pos + int64(len(buf))
	if block == 0 || end+segment.PadBytes(end, block) > size {
		return buf
	}
	return segment.AppendPad(buf, h, key, end, block)
}
