package wal

import "durafs/segment"

// Near is where reading on with ReadBatch comes to the batch with this LSN,
// after others of its segment; false where that is not durable. A log that
// begins behind it gives a later batch first.
func (l *Log) Near(lsn uint64) (Position, bool) {
	if lsn == 0 || lsn > l.durable.Load() {
		return Position{}, false
	}
	for _, s := range *l.files.table.Load() {
		if !s.closed.Load() || s.last >= lsn {
			return Position{s.id, segment.HeaderBytes}, true
		}
	}
	return Position{}, false
}
