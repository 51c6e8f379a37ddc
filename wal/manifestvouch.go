package wal

import (
	"errors"

	"durafs/internal/mutant"
	"durafs/segment"
)

// vouch writes a frame into each copy that calls all edits so far committed,
// in a block that none of them is in:
//
//	pad       to the end of the block
//	barrier   durable is the number of the last edit
//
// Before files are destroyed that an edit dropped, this is durable: a damaged
// block can then not take the edit with it without being noticed.
func (m *manifest) vouch() error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if _, err := m.with(nil); err != nil {
		return err
	}
	for i, tries := 0, 0; i < len(m.copies); i++ {
		anew, err := m.vouchIn(i)
		if err != nil {
			return err
		}
		if tries++; anew && tries < vouchTriesMax {
			i = -1 // both copies are others now
		}
	}
	return nil
}

// vouchTriesMax bounds the copies that are made anew for one vouch.
const vouchTriesMax = 4

// vouchIn writes that frame into a copy. Where it cannot, both copies are made
// anew instead.
func (m *manifest) vouchIn(i int) (anew bool, err error) {
	c := &m.copies[i]
	b, prev := m.vouchFrames(c)
	if !m.hasRoom(int64(len(b)) + editReserveBytes) {
		return true, m.rewrite(m.current())
	}
	err = c.write(b, prev)
	switch {
	case errors.Is(err, errNotWritten):
		return true, m.replace(m.current(), err)
	case err != nil:
		return false, m.breakOff(err)
	}
	return false, nil
}

func (m *manifest) vouchFrames(c *manifestCopy) (b []byte, prev uint32) {
	h := segment.FrameHeader{LSN: m.seq, Durable: m.seq, Prev: c.prev}
	b = segment.AppendPad(nil, &h, c.key, c.pos, segment.HeaderBytes)
	if mutant.On(mutant.VouchedInItsBlock) {
		b, h.Prev = nil, c.prev
	}
	h.Kind = segment.Barrier
	b = segment.AppendFrame(b, &h, c.key, c.pos+int64(len(b)), nil)
	return b, h.CRC
}
