package wal

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"durafs/internal/vfs"
)

// simDisk is a disk under strict rules. After a crash each 512-byte sector of
// a file holds any version that it had since the file's last sync, each by
// itself; the size is any that it had; and of the changes of names since the
// directory's last sync any subset remains.
type simDisk struct {
	// mu guards everything.
	mu    sync.Mutex
	names map[string]*simFile // as a running process sees them
	kept  map[string]*simFile // as they are durable
	ops   []simOp             // changes of names that are not
	calls int
	open  int // files and directories that are open
	// onCall, if set, is called before each call that changes something, with
	// its number, and may fail it.
	onCall func(n int, op, name string) simFault
	rng    *rand.Rand
}

type simFault struct {
	err  error
	done bool // the call is made all the same
}

const simSector = 512

type simFile struct {
	dir    bool
	now    []byte // as a running process reads it
	kept   []byte // as it is durable; never changed in place
	shared bool   // now is not to be changed in place either
	dirty  map[int64][][]byte
	sizes  []int64
}

// simOp is a change of names: name loses or gets its file.
type simOp struct {
	dir      string
	from, to string
	file     *simFile
}

func newSimDisk(seed uint64) *simDisk {
	root := &simFile{dir: true}
	return &simDisk{
		names: map[string]*simFile{"/": root}, kept: map[string]*simFile{"/": root},
		rng: rand.New(rand.NewPCG(seed, 1)),
	}
}

// clone is the same disk at this moment. mu is held.
func (d *simDisk) clone() *simDisk {
	c := &simDisk{names: map[string]*simFile{}, kept: map[string]*simFile{}}
	seen := map[*simFile]*simFile{}
	file := func(f *simFile) *simFile {
		if f == nil {
			return nil
		}
		if seen[f] == nil {
			f.shared = true
			g := &simFile{dir: f.dir, now: f.now, kept: f.kept, shared: true, sizes: slices.Clone(f.sizes)}
			if len(f.dirty) > 0 {
				g.dirty = map[int64][][]byte{}
			}
			for s, v := range f.dirty {
				g.dirty[s] = slices.Clone(v)
			}
			seen[f] = g
		}
		return seen[f]
	}
	for n, f := range d.names {
		c.names[n] = file(f)
	}
	for n, f := range d.kept {
		c.kept[n] = file(f)
	}
	for _, op := range d.ops {
		op.file = file(op.file)
		c.ops = append(c.ops, op)
	}
	return c
}

// crash is a disk that can be there after a power cut. mode 0 keeps nothing
// that was not synced, 1 everything, others a random mix.
func (d *simDisk) crash(mode int, seed uint64) *simDisk {
	rng := rand.New(rand.NewPCG(seed, uint64(mode)))
	d.mu.Lock()
	defer d.mu.Unlock()
	keep := func() bool { return mode == 1 || mode > 1 && rng.IntN(2) == 0 }
	names := maps.Clone(d.kept)
	for _, op := range d.ops {
		if !keep() {
			continue
		}
		if op.from != "" {
			delete(names, op.from)
		}
		if op.to != "" {
			names[op.to] = op.file
		}
	}
	maps.DeleteFunc(names, func(name string, _ *simFile) bool { return names[filepath.Dir(name)] == nil })
	c := newSimDisk(seed)
	seen := map[*simFile]*simFile{}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		f := names[n]
		if seen[f] == nil {
			seen[f] = f.crashed(mode, rng)
		}
		c.names[n] = seen[f]
	}
	c.kept = maps.Clone(c.names)
	return c
}

func (f *simFile) crashed(mode int, rng *rand.Rand) *simFile {
	b := f.kept
	if len(f.dirty) > 0 {
		b = slices.Clone(b)
	}
	size := int64(len(b))
	sizes := append([]int64{size}, f.sizes...)
	switch mode {
	case 0:
	case 1:
		size = sizes[len(sizes)-1]
	default:
		size = sizes[rng.IntN(len(sizes))]
	}
	for _, s := range slices.Sorted(maps.Keys(f.dirty)) {
		versions := f.dirty[s]
		i := -1 // the durable one
		switch {
		case mode == 1:
			i = len(versions) - 1
		case mode > 1:
			i = rng.IntN(len(versions)+1) - 1
		}
		if i >= 0 {
			b = putAt(b, versions[i], s*simSector)
		}
	}
	b = resized(b, size)
	return &simFile{dir: f.dir, now: b, kept: b, shared: true}
}

func putAt(b, p []byte, off int64) []byte {
	if need := off + int64(len(p)); need > int64(len(b)) {
		b = resized(b, need)
	}
	copy(b[off:], p)
	return b
}

func resized(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n:n]
	}
	return append(b[:len(b):len(b)], make([]byte, n-int64(len(b)))...)
}

// call counts a call that changes something. It is made if do is true.
func (d *simDisk) call(op, name string) (do bool, err error) {
	d.calls++
	if d.onCall == nil {
		return true, nil
	}
	f := d.onCall(d.calls, op, name)
	if f.err == nil {
		return true, nil
	}
	return f.done, &fs.PathError{Op: op, Path: name, Err: f.err}
}

func notThere(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
}

func (d *simDisk) Create(name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.EEXIST}
	}
	do, err := d.call("create", name)
	f := &simFile{}
	if do {
		d.names[name] = f
		d.ops = append(d.ops, simOp{dir: filepath.Dir(name), to: name, file: f})
	}
	if err != nil {
		return nil, err
	}
	d.open++
	return &simHandle{d: d, f: f, name: name}, nil
}

func (d *simDisk) Open(name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		return nil, notThere("open", name)
	}
	d.open++
	return &simHandle{d: d, f: f, name: name}, nil
}

func (d *simDisk) OpenWrite(name string) (vfs.File, error) { return d.Open(name) }

func (d *simDisk) OpenDir(name string) (vfs.Dir, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return nil, notThere("opendir", name)
	}
	d.open++
	return &simDir{d, name}, nil
}

func (d *simDisk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	do, err := d.call("mkdir", name)
	if do {
		f := &simFile{dir: true}
		d.names[name] = f
		d.ops = append(d.ops, simOp{dir: filepath.Dir(name), to: name, file: f})
	}
	return err
}

func (d *simDisk) Rename(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[oldname]
	if f == nil {
		return notThere("rename", oldname)
	}
	do, err := d.call("rename", newname)
	if do {
		delete(d.names, oldname)
		d.names[newname] = f
		d.ops = append(d.ops, simOp{dir: filepath.Dir(newname), from: oldname, to: newname, file: f})
	}
	return err
}

func (d *simDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return notThere("remove", name)
	}
	do, err := d.call("remove", name)
	if do {
		delete(d.names, name)
		d.ops = append(d.ops, simOp{dir: filepath.Dir(name), from: name})
	}
	return err
}

func (d *simDisk) ReadDir(name string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	for n := range d.names {
		if filepath.Dir(n) == name && n != "/" {
			list = append(list, filepath.Base(n))
		}
	}
	slices.Sort(list)
	return list, nil
}

func (d *simDisk) Stat(name string) (vfs.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		return vfs.Info{}, notThere("stat", name)
	}
	return vfs.Info{Size: int64(len(f.now)), IsDir: f.dir, Links: 1}, nil
}

func (d *simDisk) Usage(string) (vfs.Usage, error) {
	return vfs.Usage{Mount: "/", SizeBytes: 1 << 30, FreeBytes: 1 << 29, FreeInodes: -1}, nil
}

type simDir struct {
	d    *simDisk
	name string
}

func (s *simDir) Close() error { return s.d.closed() }

func (d *simDisk) closed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	return nil
}

func (s *simDir) Sync() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	do, err := s.d.call("syncdir", s.name)
	if !do {
		return err
	}
	var rest []simOp
	for _, op := range s.d.ops {
		if op.dir != s.name {
			rest = append(rest, op)
			continue
		}
		if op.from != "" {
			delete(s.d.kept, op.from)
		}
		if op.to != "" {
			s.d.kept[op.to] = op.file
		}
	}
	s.d.ops = rest
	return err
}

type simHandle struct {
	d    *simDisk
	f    *simFile
	name string
}

func (h *simHandle) Name() string                   { return h.name }
func (h *simHandle) Close() error                   { return h.d.closed() }
func (h *simHandle) WriteBehind(int64, int64) error { return nil }

func (h *simHandle) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.f.now)), nil
}

func (h *simHandle) ReadAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return readSim(h.f.now, p, off)
}

func readSim(b, p []byte, off int64) (int, error) {
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ReadUncachedAt reads what the device holds; what is dirty is written first.
func (h *simHandle) ReadUncachedAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	b := resized(slices.Clone(h.f.kept), int64(len(h.f.now)))
	for s, versions := range h.f.dirty {
		if s*simSector < int64(len(b)) {
			copy(b[s*simSector:], versions[len(versions)-1])
		}
	}
	return readSim(b, p, off)
}

func (h *simHandle) WriteAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	do, err := h.d.call("write", h.name)
	if !do {
		return 0, err
	}
	h.f.write(p, off)
	return len(p), err
}

func (f *simFile) write(p []byte, off int64) {
	if f.shared {
		f.now, f.shared = slices.Clone(f.now), false
	}
	f.now = putAt(f.now, p, off)
	f.sizes = append(f.sizes, int64(len(f.now)))
	if f.dirty == nil {
		f.dirty = map[int64][][]byte{}
	}
	for s := off / simSector; s*simSector < off+int64(len(p)); s++ {
		end := min((s+1)*simSector, int64(len(f.now)))
		f.dirty[s] = append(f.dirty[s], slices.Clone(f.now[s*simSector:end]))
	}
}

func (h *simHandle) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	do, err := h.d.call("truncate", h.name)
	if do {
		h.f.now = resized(slices.Clone(h.f.now), size)
		h.f.sizes = append(h.f.sizes, size)
	}
	return err
}

// Datasync makes what was written durable. One that fails and is not done
// leaves each sector old or new, and what is cached counts as clean: the next
// sync answers success and writes nothing.
func (h *simHandle) Datasync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	do, err := h.d.call("datasync", h.name)
	if do {
		h.f.kept, h.f.shared = h.f.now, true
	} else {
		h.f.kept = h.f.crashed(2, h.d.rng).now
	}
	h.f.dirty, h.f.sizes = nil, nil
	return err
}

// dump lists the files, for messages.
func (d *simDisk) dump() string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(d.names)) {
		b.WriteString(n + " ")
	}
	return b.String()
}
