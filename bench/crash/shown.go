package crash

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"strings"
	"sync"

	"durafs/internal/vfs"
	"durafs/runs"
	"durafs/store"
	"durafs/view"
)

// wasRead is a promise that nobody made: a reader of the tree was shown so many
// bytes (N, with the checksum M) of the file Text. So no crash may take them
// back.
const wasRead = "was read"

// reader looks at the tree that the mount shows, as often as it can: before
// each call that changes the disk, when what is on its way must not show yet,
// and behind each step.
type reader struct {
	l    *Life
	runs *runs.Store
	tree *view.View

	// mu guards the rest, and lets one look at a time.
	mu    sync.Mutex
	shown map[string]int64 // by path, how much was read
}

// watched is the life's disk, with its reader beside it.
func (l *Life) watched() vfs.FS {
	return vfs.Hooked(l.Disk, func(c vfs.Call, do func(int64) error) error {
		if r := l.reader.Load(); r != nil && c.Op&(vfs.OpChanges|vfs.OpSyncs) != 0 {
			r.look(false)
		}
		return do(vfs.Whole)
	})
}

// reads lets a reader look at a store from now on, until the next one or nil.
func (l *Life) reads(s *store.Store) {
	if s == nil {
		l.reader.Store(nil)
		return
	}
	l.reader.Store(&reader{l: l, runs: s.Runs(), tree: view.New(s.Runs(), nil), shown: map[string]int64{}})
}

// look reads what is new: of logs, and with all of payloads too. Where calls
// fail it may see nothing.
func (l *Life) look() {
	if r := l.reader.Load(); r != nil {
		r.look(true)
	}
}

// look does nothing where somebody looks already, which it may do itself: to
// read is to make calls.
func (r *reader) look(all bool) {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	tree := r.tree.FS()
	for ref := runs.Ref(1); ref <= r.runs.Newest(); ref++ {
		info, ok := r.runs.Info(ref)
		if !ok {
			continue
		}
		dir := "runs/" + info.ID
		if info.LogBytes > r.shown[dir+"/log"] {
			r.read(tree, dir+"/log")
		}
		if !all {
			continue
		}
		r.readOnce(tree, dir+"/payload")
		names, _ := fs.ReadDir(tree, dir+"/payloads")
		for _, e := range names {
			r.readOnce(tree, dir+"/payloads/"+e.Name())
		}
	}
}

// readOnce reads a file that never changes.
func (r *reader) readOnce(tree fs.FS, name string) {
	if _, ok := r.shown[name]; !ok {
		r.read(tree, name)
	}
}

func (r *reader) read(tree fs.FS, name string) {
	b, err := fs.ReadFile(tree, name)
	if err != nil || r.l.Faulty && bytes.Contains(b, []byte(`"type":"damaged"`)) {
		return // what could not be read was told as that
	}
	r.shown[name] = int64(len(b))
	r.l.Promise(Promise{What: wasRead, N: uint64(len(b)), M: uint64(crc32.Checksum(b, castagnoli)), Text: name})
}

// judgeRead checks that all that was shown is there, logs as beginnings of what
// they are now. gone says which files of runs may be missing.
func judgeRead(promises []Promise, s *store.Store, gone func(id, file string) bool) error {
	latest := map[string]Promise{}
	for _, p := range promises {
		if p.What == wasRead && p.N >= latest[p.Text].N {
			latest[p.Text] = p
		}
	}
	if len(latest) == 0 {
		return nil
	}
	tree := view.New(s.Runs(), nil).FS()
	for name, p := range latest {
		if parts := strings.SplitN(name, "/", 3); gone(parts[1], parts[2]) {
			continue
		}
		b, err := fs.ReadFile(tree, name)
		if err != nil {
			return fmt.Errorf("%d bytes of it were shown: %w", p.N, err)
		}
		grows := path.Base(name) == "log"
		if uint64(len(b)) < p.N || uint64(len(b)) > p.N && !grows || uint64(crc32.Checksum(b[:p.N], castagnoli)) != p.M {
			return fmt.Errorf("%s: %d bytes were shown, and are not what it begins with: it has %d", name, p.N, len(b))
		}
	}
	return nil
}
