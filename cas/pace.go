package cas

import "durafs/internal/gentle"

const (
	// flushBytes that are not durable yet are made so ahead of need: who then
	// asks for a barrier waits for little.
	flushBytes = 2 << 20
	// lateBytesMax is how far a put may run ahead of what is durable.
	lateBytesMax = 16 << 20
	// gentleLateBytesMax is lateBytesMax while others commit on the same disk:
	// what is written back costs their barriers little, but a sync of it each time
	// as much as they take themselves.
	gentleLateBytesMax = 64 << 20
)

// gently is the pace of work beside the log, for as long as that commits.
func (s *Store) gently() gentle.Pace { return gentle.Beside(s.opts.Others) }

// rest lies between the chunks that a put encodes. An error comes again when
// the next chunk is read.
func (p *put) rest(bytes int) { _ = p.gentle.Did(p.ctx, bytes) }

// pace makes what a put of several blocks has written durable behind it: soon
// while it has the disk for itself, late while others commit.
func (p *put) pace() error {
	pk := p.last.p
	pk.mu.Lock()
	end, late := pk.written, pk.written-pk.durable
	pk.mu.Unlock()
	ahead := int64(lateBytesMax)
	if p.gentle.Others() {
		ahead = gentleLateBytesMax
	} else if late >= flushBytes {
		p.s.flushSoon(pk)
	}
	return p.s.flush(p.ctx, pk, end-ahead)
}
