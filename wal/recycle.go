package wal

import (
	"slices"
	"sync"

	"durafs/internal/mutant"
	"durafs/segment"
)

// poolFilesMax bounds the dropped segments that are kept to be used again.
const poolFilesMax = 4

// pool holds dropped segments under the names of spares. Their blocks are
// written, so nothing has to be before they are used again: frames that stand
// there do not check under another salt (see segment.Key).
type pool struct {
	mu    sync.Mutex
	files []pooled
}

// pooled is a dropped segment in the pool.
type pooled struct {
	id   uint32
	salt uint64
	size int64
}

// put tells whether there is room for one more.
func (p *pool) put(f pooled) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.files) >= poolFilesMax {
		return false
	}
	p.files = append(p.files, f)
	return true
}

// take takes the largest out.
func (p *pool) take() (f pooled, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.files) == 0 {
		return f, false
	}
	largest := 0
	for i := range p.files {
		if p.files[i].size > p.files[largest].size {
			largest = i
		}
	}
	f = p.files[largest]
	p.files = slices.Delete(p.files, largest, largest+1)
	return f, true
}

// recycle makes the spare for e of a dropped segment; nil where there is none,
// or it cannot be used. It gets at least e's size; a larger one stays as large.
//
//	rename      to the new number's name; nothing rests on either
//	write       zeros behind its end, to the full size
//	fdatasync
//
// The frames in it stay. The salt is chosen so that none of them checks; those
// are of one file only, for a segment was cut at its end when it was sealed.
func (l *Log) recycle(e segEntry, pause func(int64) error) *spare {
	old, ok := l.pool.take()
	if !ok {
		return nil
	}
	const block = segment.HeaderBytes
	e.Size = max(e.Size, old.size&^(block-1))
	for segment.NewKey(e.Salt) == segment.NewKey(old.salt) && !mutant.On(mutant.SaltNotInChecksum) {
		e.Salt = l.opts.Salt()
	}
	s, err := l.reuse(old, e, pause)
	if err != nil {
		l.log.Warn("a dropped segment could not be used again", "file", segmentName(old.id), "cause", err)
		l.fs.Remove(l.path(spareName(old.id)))
		l.fs.Remove(l.path(spareName(e.ID)))
		return nil
	}
	return s
}

func (l *Log) reuse(old pooled, e segEntry, pause func(int64) error) (*spare, error) {
	if err := l.fs.Rename(l.path(spareName(old.id)), l.path(spareName(e.ID))); err != nil {
		return nil, err
	}
	f, err := l.fs.OpenWrite(l.path(spareName(e.ID)))
	if err != nil {
		return nil, err
	}
	if err := l.fillSpare(f, old.size, e.Size, pause); err != nil {
		f.Close()
		return nil, err
	}
	return &spare{segEntry: e, f: f, recycled: true}, nil
}
