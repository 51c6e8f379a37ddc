package cas

import (
	"context"
	"errors"
	"io"

	"github.com/zeebo/blake3"
)

// put is one payload on its way in. The caller's goroutine reads chunks and
// feeds the whole payload's hash; the workers hash and compress up to
// putDepthMax of them; the line (line.go) appends the records in order.
type put struct {
	s     *Store
	ctx   context.Context
	src   io.Reader
	whole *blake3.Hasher
	bytes int64
	tree  tree
	last  place // of the latest chunk

	needs map[*pack]uint32 // what must be durable: up to which end in which pack

	line *line // of a payload of several chunks; it owns tree, last and needs
}

// Put reads a payload to its end and makes it durable: when it returns, every
// chunk and the manifest are behind a barrier (which puts of other callers may
// share), or Ref.Inline is set. After an error nothing refers to what was
// written, and it is reclaimed in time. A failure of r is returned as it is;
// others are *NoSpaceError, ErrPoisoned, ErrClosed, ctx's, or of the operating
// system. Memory is bounded whatever the payload's size.
func (s *Store) Put(ctx context.Context, r io.Reader) (Ref, error) {
	leave, err := s.enter()
	if err != nil {
		return Ref{}, err
	}
	defer leave()
	p := &put{s: s, ctx: ctx, src: r, needs: make(map[*pack]uint32)}
	defer p.abandon()
	ref, err := p.run()
	if err == nil {
		s.stats.puts.Add(1)
		s.stats.bytes.Add(ref.Bytes)
	}
	return ref, err
}

func (p *put) run() (Ref, error) {
	first, err := p.read()
	if err != nil {
		return Ref{}, err
	}
	size := p.s.opts.chunkBytes
	if first.n <= min(InlineBytesMax, size-1) {
		return p.inline(first), nil
	}
	if err := p.s.Healthy(); err != nil {
		p.s.putBuffer(first.buf)
		return Ref{}, err
	}
	// The whole payload's id is that of its only chunk, if it has but one.
	var next *encoded
	if first.n == size {
		if next, err = p.read(); err != nil {
			p.s.putBuffer(first.buf)
			return Ref{}, err
		}
	}
	if next == nil || next.n == 0 {
		if next != nil {
			p.s.putBuffer(next.buf)
		}
		return p.single(first)
	}
	return p.stream(first, next)
}

// read takes the next chunk from the source; n is short at the payload's end.
func (p *put) read() (*encoded, error) {
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	e := &encoded{buf: p.s.getBuffer()}
	var err error
	e.n, err = io.ReadFull(p.src, e.buf.chunk(p.s.opts.chunkBytes))
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		p.s.putBuffer(e.buf)
		return nil, err
	}
	return e, nil
}

func (p *put) inline(e *encoded) Ref {
	defer p.s.putBuffer(e.buf)
	raw := e.buf.chunk(e.n)
	ref := Ref{ID: Sum(raw), Bytes: int64(e.n)}
	if e.n > 0 {
		ref.Inline = append([]byte(nil), raw...)
	}
	return ref
}

// single stores a payload of one chunk.
func (p *put) single(e *encoded) (Ref, error) {
	p.s.encodeChunk(e)
	if err := p.store(e); err != nil {
		return Ref{}, err
	}
	ref := Ref{ID: e.id, Bytes: int64(e.n), Hint: p.last.hint}
	return ref, p.settle()
}

// stream stores a payload of several chunks and its manifest.
func (p *put) stream(first, next *encoded) (Ref, error) {
	p.whole = blake3.New()
	p.tree = tree{put: p}
	p.line = startLine(p)
	for e := first; e.n > 0; {
		full := e.n == p.s.opts.chunkBytes
		if err := p.push(e); err != nil {
			if e == first {
				p.s.putBuffer(next.buf)
			}
			return Ref{}, err
		}
		if !full {
			break
		}
		if e == first {
			e = next
			continue
		}
		var err error
		if e, err = p.read(); err != nil {
			return Ref{}, err
		}
		if e.n == 0 {
			p.s.putBuffer(e.buf)
		}
	}
	if err := p.line.end(); err != nil {
		return Ref{}, err
	}
	var id ID
	p.whole.Sum(id[:0])
	root, err := p.tree.finish(id)
	if err != nil {
		return Ref{}, err
	}
	return Ref{ID: id, Bytes: p.bytes, Hint: root.hint}, p.settle()
}

// push sends a chunk through the encoders and into the line. Beside the worker
// that has it, the caller hashes it into the whole: both only read.
func (p *put) push(e *encoded) error {
	raw := e.buf.chunk(e.n)
	p.bytes += int64(e.n)
	e.done = make(chan struct{})
	e.token = p.admit()
	work := func() { p.s.encodeChunk(e); close(e.done) }
	busy := !e.token || !p.s.workers.try(work)
	p.whole.Write(raw)
	if busy {
		work()
	}
	return p.line.add(e)
}

// admit takes a token for one more chunk in the encoders.
func (p *put) admit() bool {
	select {
	case p.s.spare <- struct{}{}:
		return true
	default:
		return false
	}
}

// store appends a chunk that was encoded and gives its buffer back.
func (p *put) store(e *encoded) error {
	defer p.s.putBuffer(e.buf)
	at := e.dup
	if at.p == nil {
		var err error
		if at, err = p.s.append(p.ctx, e.hdr, e.rec); err != nil {
			return err
		}
	}
	p.need(at)
	if p.whole == nil {
		return nil
	}
	return p.tree.add(0, child{ID: e.id, Hint: at.hint}, int64(e.n))
}

// need notes that the payload is complete only when at is durable.
func (p *put) need(at place) {
	p.last = at
	p.needs[at.p] = max(p.needs[at.p], at.hint.End)
}

// settle waits until everything that the payload consists of is durable.
func (p *put) settle() error {
	for pk, end := range p.needs {
		if err := p.s.flush(p.ctx, pk, int64(end)); err != nil {
			return err
		}
	}
	return nil
}

// abandon waits for what is still in the line after an error.
func (p *put) abandon() {
	if p.line != nil {
		_ = p.line.end()
	}
}
