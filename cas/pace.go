package cas

import "time"

const (
	// flushBytes that are not durable yet are made so ahead of need: who then
	// asks for a barrier waits for little.
	flushBytes = 2 << 20
	// lateBytesMax is how far a put may run ahead of what is durable.
	lateBytesMax = 16 << 20
	// gentlePause follows each block while others commit on the same disk. A
	// disk syncs one thing after the other: at full speed a log's barrier of
	// 0.2 ms has to wait for several ms of a payload. With the pause each takes
	// along what little was written back since the one before it.
	gentlePause = 5 * time.Millisecond
	// gentleLateBytesMax is lateBytesMax then: what is written back costs a sync
	// little, but each is a commit of the file system's journal, for which a
	// log's barrier has to wait.
	gentleLateBytesMax = 64 << 20
)

// pace holds a put of several blocks back after each of them: at full speed
// while it has the disk for itself, at about 80 MB/s while others commit.
func (p *put) pace() error {
	pk := p.last.p
	pk.mu.Lock()
	end, late := pk.written, pk.written-pk.durable
	pk.mu.Unlock()
	ahead := int64(lateBytesMax)
	if p.othersCommit() {
		ahead = gentleLateBytesMax
		pause := time.NewTimer(gentlePause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	} else if late >= flushBytes {
		p.s.flushSoon(pk)
	}
	return p.s.flush(p.ctx, pk, end-ahead)
}

// othersCommit reports whether others have committed since the block before.
func (p *put) othersCommit() bool {
	if p.s.opts.Others == nil {
		return false
	}
	before := p.others
	p.others = p.s.opts.Others()
	return before != 0 && before != p.others
}
