package cas

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"durafs/internal/vfs"
)

const (
	indexSuffix = ".index"
	// indexRecords of sealed packs that no index covers make one: 1 Mi, 16 MiB.
	// The table remembers as many and more.
	indexRecords = 1 << 20
)

// indexer is the goroutine that knows where the records of sealed packs are:
// those of recent packs go into the table, older ones into index files. All of
// it is derived, and it begins after Open returned: until it is done a put may
// store a chunk again that it would else have found.
type indexer struct {
	todo chan struct{} // holds at most one: there is something in sealed
	quit chan struct{}
	done chan struct{}

	// The goroutine owns these: packs in no index yet, and their records.
	pending        []*pack
	pendingRecords int

	// mu guards the rest.
	mu     sync.RWMutex
	files  []*openIndex
	opened []*openIndex // and those that were given up; closed at the end
	sealed []*pack      // news for the goroutine
	idle   bool         // it has nothing to do
}

type openIndex struct {
	*index
	name string
	f    vfs.File
	bad  bool // indexer.mu guards it
}

func (s *Store) startIndexer(names []string) {
	x := &s.indexer
	x.todo, x.quit, x.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	var old []*pack
	for _, p := range s.newestFirst() {
		if p.sealed && !p.missing {
			old = append(old, p)
		}
	}
	slices.Reverse(old)
	if s.opts.ReadOnly != nil {
		old = nil // nobody will ask what is there already, and nothing is written
	}
	go s.runIndexer(names, old)
}

func (s *Store) runIndexer(names []string, old []*pack) {
	x := &s.indexer
	defer close(x.done)
	s.loadIndexes(names)
	for {
		for _, p := range s.uncovered(old) {
			if x.stopped() {
				return
			}
			s.remember(p)
			s.writeIndex()
		}
		if old = x.news(); len(old) > 0 {
			continue
		}
		select {
		case <-x.quit:
			return
		case <-x.todo:
		}
	}
}

func (x *indexer) stopped() bool {
	select {
	case <-x.quit:
		return true
	default:
		return false
	}
}

// news takes what was sealed meanwhile.
func (x *indexer) news() []*pack {
	x.mu.Lock()
	defer x.mu.Unlock()
	packs := x.sealed
	x.sealed, x.idle = nil, len(packs) == 0
	return packs
}

// wasSealed tells the indexer of a pack that this process sealed.
func (x *indexer) wasSealed(p *pack) {
	x.mu.Lock()
	x.sealed, x.idle = append(x.sealed, p), false
	x.mu.Unlock()
	select {
	case x.todo <- struct{}{}:
	default:
	}
}

func (x *indexer) close() {
	close(x.quit)
	<-x.done
	for _, o := range x.opened {
		o.f.Close()
	}
}

// loadIndexes opens the index files of earlier processes. One that is not sound,
// or covers no pack that is there, goes.
func (s *Store) loadIndexes(names []string) {
	for _, name := range names {
		if s.indexer.stopped() {
			return
		}
		name = filepath.Join(s.dir, name)
		o, err := s.openIndex(name)
		if err != nil {
			s.log.Info("an index is made anew", "file", name, "err", err)
			s.removeIndex(name)
			continue
		}
		s.indexer.use(o)
	}
}

func (s *Store) openIndex(name string) (*openIndex, error) {
	f, err := s.fs.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil {
		var x *index
		if x, err = readIndex(f, size); err == nil {
			if x.StoreID == s.opts.StoreID && slices.ContainsFunc(x.Packs, s.isIndexed) {
				return &openIndex{index: x, name: name, f: f}, nil
			}
			err = fmt.Errorf("it is of other packs")
		}
	}
	f.Close()
	return nil, err
}

func (s *Store) isIndexed(i indexedPack) bool {
	p := s.pack(i.Seq)
	return p != nil && p.nonce == i.Nonce
}

func (s *Store) removeIndex(name string) {
	if err := s.fs.Remove(name); err != nil {
		s.log.Warn("an index of no use is left behind", "file", name, "err", err)
	}
}

// uncovered are those of packs that no index has.
func (s *Store) uncovered(packs []*pack) []*pack {
	have := make(map[uint32]uint64)
	s.indexer.mu.RLock()
	for _, o := range s.indexer.files {
		for _, p := range o.Packs {
			have[p.Seq] = p.Nonce
		}
	}
	s.indexer.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(packs), func(p *pack) bool {
		nonce, ok := have[p.seq]
		return ok && nonce == p.nonce
	})
}

// remember puts the records of a sealed pack into the table. What this process
// stored is there already.
func (s *Store) remember(p *pack) {
	entries := s.entriesOf(p)
	if !p.write.known {
		for _, e := range entries {
			s.table.add(slotOf(e.ID, p.seq, int64(e.Offset)))
		}
	}
	p.write.known = false // if it comes again, the table may have forgotten it
	s.indexer.pending = append(s.indexer.pending, p)
	s.indexer.pendingRecords += len(entries)
}

// entriesOf reads a sealed pack's footer, or walks where that is not sound.
func (s *Store) entriesOf(p *pack) []entry {
	h, err := s.files.acquire(p)
	if err != nil {
		return nil
	}
	defer s.files.release(h)
	p.mu.Lock()
	size := p.written
	p.mu.Unlock()
	_, entries, err := readFooter(h.f, size, p.seq, p.nonce)
	if err != nil {
		h.index.Do(h.loadIndex)
		return h.walk
	}
	return entries
}

// writeIndex makes an index over what is pending, when that is enough for one.
// Without it nothing is lost: what cannot be written now is tried again with
// the next pack.
func (s *Store) writeIndex() {
	x := &s.indexer
	if x.pendingRecords < s.opts.indexRecords {
		return
	}
	var slots []slot
	var packs []indexedPack
	for _, p := range x.pending {
		packs = append(packs, indexedPack{p.seq, p.nonce})
		for _, e := range s.entriesOf(p) {
			slots = append(slots, slotOf(e.ID, p.seq, int64(e.Offset)))
		}
	}
	if len(slots) < len(packs) {
		return
	}
	slices.SortFunc(packs, func(a, b indexedPack) int { return int(int64(a.Seq) - int64(b.Seq)) })
	name := filepath.Join(s.dir, fmt.Sprintf("%010d-%010d%s", packs[0].Seq, packs[len(packs)-1].Seq, indexSuffix))
	o, err := s.createIndex(name, marshalIndex(s.opts.StoreID, packs, slots))
	if err != nil {
		s.log.Warn("an index could not be written yet", "file", name, "err", err)
		return
	}
	x.pending, x.pendingRecords = nil, 0
	x.use(o)
}

func (x *indexer) use(o *openIndex) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.files, x.opened = append(slices.Clone(x.files), o), append(x.opened, o)
}

// createIndex writes an index file. A power cut before its sync leaves one that
// does not check; its name needs no sync either.
func (s *Store) createIndex(name string, b []byte) (*openIndex, error) {
	_ = s.fs.Remove(name)
	f, err := s.fs.Create(name)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Datasync()
	}
	if err != nil {
		f.Close()
		s.removeIndex(name)
		return nil, err
	}
	x, err := readIndex(f, int64(len(b)))
	if err != nil {
		f.Close()
		return nil, err
	}
	return &openIndex{index: x, name: name, f: f}, nil
}

// find calls visit for every place that may hold id, the recent ones first,
// until it returns true.
func (s *Store) find(id ID, visit func(seq uint32, off int64) bool) {
	found := false
	s.table.find(id, func(seq uint32, off int64) bool {
		found = visit(seq, off)
		return found
	})
	if found {
		return
	}
	for _, place := range s.indexed(id) {
		if visit(splitPlace(place)) {
			return
		}
	}
}

// indexed asks the index files. One that turns out not to be sound is given up.
func (s *Store) indexed(id ID) (places []uint64) {
	s.indexer.mu.RLock()
	files := s.indexer.files
	s.indexer.mu.RUnlock()
	for _, o := range files {
		var err error
		if places, err = o.places(o.f, markOf(id), places); err != nil {
			s.giveUp(o, err)
		}
	}
	return places
}

// giveUp removes an index, and has its packs looked at as if just sealed.
func (s *Store) giveUp(o *openIndex, err error) {
	s.indexer.mu.Lock()
	defer s.indexer.mu.Unlock()
	if o.bad {
		return
	}
	o.bad = true
	s.log.Info("an index is not sound and will be made anew", "file", o.name, "err", err)
	s.removeIndex(o.name)
	// Its file stays open: others may be reading it.
	s.indexer.files = slices.DeleteFunc(slices.Clone(s.indexer.files), func(f *openIndex) bool { return f == o })
	for _, i := range o.Packs {
		if p := s.pack(i.Seq); p != nil && p.nonce == i.Nonce {
			s.indexer.sealed = append(s.indexer.sealed, p)
		}
	}
	s.indexer.idle = false
	select {
	case s.indexer.todo <- struct{}{}:
	default:
	}
}

func isIndex(name string) bool { return strings.HasSuffix(name, indexSuffix) }
