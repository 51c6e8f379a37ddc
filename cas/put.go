package cas

import (
	"context"
	"errors"
	"io"

	"github.com/zeebo/blake3"

	"durafs/internal/gentle"
	"durafs/internal/mutant"
)

// put is one payload on its way in, block by block. Its goroutine reads a
// block, feeds the whole payload's hash with it, gives it to the encoders, and
// appends those that are done, in order. It encodes too, where it would wait.
type put struct {
	s     *Store
	ctx   context.Context
	src   io.Reader
	whole *blake3.Hasher
	bytes int64
	tree  tree
	last  place // of the latest chunk
	apart bool  // never inline

	gentle gentle.Pace

	held  *block   // the first, until it is in queue
	queue []*block // in the encoders, the oldest in front

	needs map[*pack]uint32 // what must be durable: up to which end in which pack
}

// Put reads a payload to its end and makes it durable: when it returns, every
// chunk and the manifest are behind a barrier (which puts of other callers may
// share), or Ref.Inline is set. After an error nothing refers to what was
// written, and it is reclaimed in time. A failure of r is returned as it is;
// others are *NoSpaceError, ErrPoisoned, ErrClosed, ctx's, or of the operating
// system. Memory is bounded whatever the payload's size: a block of 512 KiB for
// each put, and spareBlocksMax for all together.
func (s *Store) Put(ctx context.Context, r io.Reader) (Ref, error) {
	return s.put(&put{s: s, ctx: ctx, src: r})
}

// PutApart is Put for a payload that is not to be inline, however small: for
// one of many, which together are too much for a batch of the log.
func (s *Store) PutApart(ctx context.Context, r io.Reader) (Ref, error) {
	return s.put(&put{s: s, ctx: ctx, src: r, apart: true})
}

func (s *Store) put(p *put) (Ref, error) {
	p.gentle = s.gently()
	leave, err := s.enter()
	if err != nil {
		return Ref{}, err
	}
	defer leave()
	s.sealer.putBegins()
	defer s.sealer.putEnds()
	p.needs = make(map[*pack]uint32)
	defer p.abandon()
	ref, err := p.run()
	if err == nil {
		s.stats.puts.Add(1)
		s.stats.bytes.Add(ref.Bytes)
	} else {
		s.stats.wasted.Add(p.bytes)
	}
	return ref, err
}

func (p *put) run() (Ref, error) {
	first := p.s.getBlock(1)
	p.held = first
	size := p.s.opts.chunkBytes
	n, err := p.readChunk(first)
	if err != nil {
		return Ref{}, err
	}
	if n <= min(InlineBytesMax, size-1) && !(p.apart && n > 0) {
		return p.inline(first, n), nil
	}
	if err := p.s.Healthy(); err != nil {
		return Ref{}, err
	}
	// The whole payload's id is that of its only chunk, if it has but one.
	if n < size {
		return p.single(first)
	}
	second, err := p.next()
	switch {
	case err != nil:
		return Ref{}, err
	case second == nil:
		return p.single(first)
	}
	p.held = nil
	return p.stream(first, second)
}

// readChunk reads the next chunk into b; it is short at the payload's end, and
// of 0 bytes behind it.
func (p *put) readChunk(b *block) (n int, err error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err = io.ReadFull(p.src, b.room(p.s.opts.chunkBytes))
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, err
	}
	if n > 0 {
		b.add(n)
	}
	return n, nil
}

// read fills b from the source; it is not full at the payload's end.
func (p *put) read(b *block) error {
	for !b.full() {
		n, err := p.readChunk(b)
		if err != nil {
			return err
		}
		if n < p.s.opts.chunkBytes {
			break
		}
	}
	return nil
}

func (p *put) inline(b *block, n int) Ref {
	if n == 0 {
		return Ref{ID: EmptyID}
	}
	raw := append([]byte(nil), b.raw(0)...)
	return Ref{ID: Sum(raw), Bytes: int64(n), Inline: raw}
}

// single stores a payload of one chunk.
func (p *put) single(b *block) (Ref, error) {
	p.bytes = int64(len(b.raw(0)))
	w := p.s.getWorkspace()
	p.s.encodeChunk(b, 0, w)
	p.s.putWorkspace(w)
	if err := p.s.append(p.ctx, b); err != nil {
		return Ref{}, err
	}
	p.need(b.chunk[0].at)
	ref := Ref{ID: b.chunk[0].hdr.ID, Bytes: p.bytes, Hint: p.last.hint}
	return ref, p.settle()
}

// stream stores a payload of several chunks and its manifest.
func (p *put) stream(first, second *block) (Ref, error) {
	p.whole = blake3.New()
	p.tree = tree{put: p}
	p.push(first)
	for b := second; b != nil; {
		full := b.full()
		p.push(b)
		if err := p.drain(putBlocksMax - 1); err != nil {
			return Ref{}, err
		}
		if b = nil; full {
			var err error
			if b, err = p.next(); err != nil {
				return Ref{}, err
			}
		}
	}
	if err := p.drain(0); err != nil {
		return Ref{}, err
	}
	id := ID(p.whole.Sum(nil))
	root, err := p.tree.finish(id)
	if err != nil {
		return Ref{}, err
	}
	return Ref{ID: id, Bytes: p.bytes, Hint: root.hint}, p.settle()
}

// next reads the next block; nil at the payload's end. Without a token it waits
// until those before are stored, so that the put has but one.
func (p *put) next() (*block, error) {
	token := len(p.queue) > 0 && p.admit()
	if !token {
		if err := p.drain(0); err != nil {
			return nil, err
		}
	}
	b := p.s.getBlock(blockChunks)
	b.token = token
	err := p.read(b)
	if err != nil || len(b.chunk) == 0 {
		p.free(b)
		return nil, err
	}
	return b, nil
}

// admit takes a token for one more block, if there is one.
func (p *put) admit() bool {
	select {
	case p.s.spare <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p *put) free(b *block) {
	if b.token {
		<-p.s.spare
	}
	p.s.putBlock(b)
}

// push gives a block to the encoders. The whole's hash comes first: they put
// what shrinks back into the block.
func (p *put) push(b *block) {
	for i := range b.chunk {
		raw := b.raw(i)
		p.whole.Write(raw)
		p.bytes += int64(len(raw))
	}
	p.s.submit(b, !p.gentle.Others())
	p.queue = append(p.queue, b)
}

// drain stores blocks from the front of the queue: those that are done, and
// until at most keep are left.
func (p *put) drain(keep int) error {
	for len(p.queue) > 0 {
		b := p.queue[0]
		if len(p.queue) <= keep && !b.job.finished() {
			return nil
		}
		p.s.encode(b.job, p.rest)
		<-b.job.done
		if err := p.store(b); err != nil {
			return err
		}
		p.queue = p.queue[1:]
		p.free(b)
	}
	return nil
}

// store appends a block that is encoded.
func (p *put) store(b *block) error {
	if err := p.s.append(p.ctx, b); err != nil {
		return err
	}
	for i := range b.chunk {
		e := &b.chunk[i]
		p.need(e.at)
		if err := p.tree.add(0, child{ID: e.hdr.ID, Hint: e.at.hint}, int64(e.hdr.Raw)); err != nil {
			return err
		}
	}
	return p.pace()
}

// need notes that the payload is complete only when at is durable.
func (p *put) need(at place) {
	p.last = at
	p.needs[at.p] = max(p.needs[at.p], at.hint.End)
}

// settle waits until everything that the payload consists of is durable.
func (p *put) settle() error {
	if mutant.On(mutant.ChunkNotSynced) {
		return nil
	}
	for pk, end := range p.needs {
		if err := p.s.flush(p.ctx, pk, int64(end)); err != nil {
			return err
		}
	}
	return nil
}

// abandon gives back what a put still has, after an error or as its only block.
func (p *put) abandon() {
	if p.held != nil {
		p.s.putBlock(p.held)
	}
	for _, b := range p.queue {
		p.s.encode(b.job, nil)
		<-b.job.done
		p.free(b)
	}
}
