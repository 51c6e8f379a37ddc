package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"durafs/internal/mutant"
	"durafs/internal/vfs"
	"durafs/segment"
)

// manifestNames are the two copies, in the order in which they are written.
var manifestNames = [2]string{"MANIFEST-A", "MANIFEST-B"}

const (
	tmpSuffix = ".tmp"
	// manifestBytesMin is the size that a copy is written ahead to, so that an
	// edit needs no space.
	manifestBytesMin = 64 << 10
	// editReserveBytes of each copy are kept for edits that have to be made
	// also when there is no space to begin the copies anew.
	editReserveBytes = 4 << 10
	// snapshotBytesMax bounds the payload of one frame of a snapshot.
	snapshotBytesMax = 512 << 10
)

// manifest keeps the list of what is live, in two copies. Each copy is a
// snapshot, made when the file was, and edits behind it. An edit is written
// and synced in A, then in B, and only then it counts; each copy alone is
// enough to read it.
type manifest struct {
	fs      vfs.FS
	dir     string
	dirf    vfs.Dir
	storeID [16]byte
	log     *slog.Logger
	fail    func(error) // poisons the log
	space   *reserve
	// bytes is what a copy is written ahead to, and salt gives salts.
	bytes int64
	salt  func() uint64

	edits atomic.Uint64

	// turn is held while an edit is written: one at a time. It guards copies,
	// and seq, which numbers the frames: that of the last one that is in both.
	turn   sync.Mutex
	seq    uint64
	copies [2]manifestCopy

	// mu guards what follows. It is held for no longer than a copy takes.
	mu     sync.Mutex
	state  manifestState
	broken error
}

// manifestCopy is a copy that this process has written.
type manifestCopy struct {
	f    vfs.File
	key  segment.Key
	pos  int64
	prev uint32
	size int64
}

// current is a copy of what the manifest says.
func (m *manifest) current() manifestState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.clone()
}

// commit makes edits durable, as one step. An error that is not ErrPoisoned
// means that nothing was changed.
func (m *manifest) commit(edits ...edit) error {
	return m.write(edits, editReserveBytes)
}

// insist is commit for what has to be made to go on: for lack of space it uses
// what is set aside, and then waits. It returns *NoSpaceError only when the log
// is closed meanwhile.
func (m *manifest) insist(edits ...edit) error {
	for again := m.space.retry(); ; {
		err := m.write(edits, 0)
		if !isNoSpace(err) || errors.Is(err, ErrPoisoned) || !again() {
			return err
		}
	}
}

// write is commit that leaves reserve bytes of the copies free.
func (m *manifest) write(edits []edit, reserve int64) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	next, err := m.with(edits)
	if err != nil {
		return err
	}
	payload := appendEdits(nil, edits)
	if !m.hasRoom(segment.FrameBytes(int64(len(payload))) + reserve) {
		// Instead of growing a file begin it anew: with the edits applied.
		return m.rewrite(next)
	}
	for i := range m.copies {
		switch err := m.append(&m.copies[i], payload, len(edits)); {
		case errors.Is(err, errNotWritten):
			return m.replace(next, err)
		case err != nil:
			return m.breakOff(err)
		}
	}
	m.seq++
	m.install(next)
	return nil
}

// with is the state with edits applied.
func (m *manifest) with(edits []edit) (manifestState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return manifestState{}, m.broken
	}
	next := m.state.clone()
	for _, e := range edits {
		if err := e.apply(&next); err != nil {
			return next, fmt.Errorf("wal: manifest: %w", err)
		}
	}
	return next, nil
}

// install makes a state that both copies have the one that counts.
func (m *manifest) install(next manifestState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = next
	m.edits.Add(1)
}

// hasRoom tells whether n bytes of frames fit into both copies.
func (m *manifest) hasRoom(n int64) bool {
	for _, c := range m.copies {
		if c.f == nil || c.pos+n > c.size {
			return false
		}
	}
	return true
}

var errNotWritten = errors.New("could not be written")

// append writes an edit to one copy: pwrite, fdatasync. After a write that
// failed (errNotWritten) that file is not written again. After a barrier that
// failed there is no way on.
func (m *manifest) append(c *manifestCopy, payload []byte, count int) error {
	h := segment.FrameHeader{Kind: segment.Manifest, LSN: m.seq + 1, Durable: m.seq, Count: uint32(count), Prev: c.prev}
	return c.write(segment.AppendFrame(nil, &h, c.key, c.pos, payload), h.CRC)
}

// write appends frames, of which the last has the header checksum prev.
func (c *manifestCopy) write(frames []byte, prev uint32) error {
	if n, err := c.f.WriteAt(frames, c.pos); err != nil || n < len(frames) {
		return fmt.Errorf("%s %w: %w", c.f.Name(), errNotWritten, errors.Join(err, shortWrite(n, len(frames))))
	}
	if mutant.On(mutant.ManifestNotSynced) {
		c.pos, c.prev = c.pos+int64(len(frames)), prev
		return nil
	}
	if err := c.f.Datasync(); err != nil {
		return err
	}
	c.pos += int64(len(frames))
	c.prev = prev
	return nil
}

// replace makes both copies anew after a write to one of them failed. Until it
// is done nobody knows whether a copy has the edit. So for lack of space it
// waits, and if it fails otherwise there is no way on.
func (m *manifest) replace(next manifestState, cause error) error {
	m.log.Warn("a copy of the manifest is made anew", "cause", cause)
	for again := m.space.retry(); ; {
		err := m.rewrite(next)
		if err == nil {
			return nil
		}
		if !isNoSpace(err) || errors.Is(err, ErrPoisoned) || !again() {
			return m.breakOff(errors.Join(cause, err))
		}
	}
}

// breakOff makes the manifest, and with it the log, take no change any more.
func (m *manifest) breakOff(cause error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken == nil {
		m.broken = fmt.Errorf("%w: manifest: %w", ErrPoisoned, cause)
		m.fail(fmt.Errorf("manifest: %w", cause))
	}
	return m.broken
}

// rewrite puts both copies anew, with next as their snapshot:
//
//	create, write, fdatasync   A and B, under temporary names: from here on no
//	                           space is needed
//	rename A                   the old copy is gone, the new one there, at once
//	fsync directory            from here on the new A stays
//	rename B, fsync directory  only now, so that one of both is always good
//
// An error before the first rename changes nothing and is returned as it is.
func (m *manifest) rewrite(next manifestState) error {
	if mutant.On(mutant.ManifestUnlinkedEarly) {
		m.fs.Remove(filepath.Join(m.dir, manifestNames[0]))
		m.fs.Remove(filepath.Join(m.dir, manifestNames[1]))
	}
	s, err := m.stage(next)
	if err != nil {
		return err
	}
	return m.replaceWith(s)
}

// staged are copies of the manifest under temporary names.
type staged struct {
	state  manifestState
	copies [2]manifestCopy
	seq    uint64
}

// stage does the part of rewrite that needs space, and changes nothing.
func (m *manifest) stage(next manifestState) (*staged, error) {
	s, err := m.stageWith(next, m.bytes, 4)
	if isNoSpace(err) {
		// Small ones are better than none; they are made anew all the sooner.
		s, err = m.stageWith(next, 0, 1)
	}
	return s, asNoSpace(m.fs, m.dir, err)
}

// stageWith makes copies of times the size that the state has, and of at least
// atLeast bytes.
func (m *manifest) stageWith(next manifestState, atLeast, times int64) (*staged, error) {
	frames := snapshotFrames(&next)
	s := &staged{state: next, seq: m.seq + uint64(len(frames))}
	for i, name := range manifestNames {
		c, err := m.writeCopy(name+tmpSuffix, frames, m.seq, func(n int64) int64 { return max(atLeast, times*n) })
		if err != nil {
			m.discard(s.copies[:i])
			return nil, err
		}
		s.copies[i] = c
	}
	return s, nil
}

// replaceWith puts staged copies in the place of the old ones.
func (m *manifest) replaceWith(s *staged) error {
	for i, name := range manifestNames {
		if err := m.rename(name, s.copies[i]); err != nil {
			m.discard(s.copies[i:])
			return m.breakOff(err)
		}
		if m.copies[i].f != nil {
			m.copies[i].f.Close()
		}
		m.copies[i] = s.copies[i]
	}
	m.seq = s.seq
	m.install(s.state)
	return nil
}

// discard closes copies that are not to be used, and unlinks those that still
// have their temporary name. An error leaves a file that the next open removes.
func (m *manifest) discard(fresh []manifestCopy) {
	for _, c := range fresh {
		c.f.Close()
		m.fs.Remove(c.f.Name())
	}
}

func (m *manifest) rename(name string, c manifestCopy) error {
	if err := m.fs.Rename(c.f.Name(), filepath.Join(m.dir, name)); err != nil {
		return err
	}
	return m.dirf.Sync()
}

// snapshotFrames are the payloads of the frames that make a state.
func snapshotFrames(s *manifestState) [][]edit {
	var frames [][]edit
	frame := []edit{beginSnapshot(0)}
	size := 0
	for _, e := range s.snapshot() {
		n := len(e.append(nil))
		if size+n > snapshotBytesMax {
			frames, frame, size = append(frames, frame), nil, 0
		}
		frame, size = append(frame, e), size+n
	}
	frames = append(frames, frame)
	frames[0][0] = beginSnapshot(len(frames))
	return frames
}

// writeCopy writes and syncs a copy under a temporary name. The number of the
// first frame is base+1. size tells how large a copy with n bytes of frames is
// to be; it always has room for edits that have to be made.
func (m *manifest) writeCopy(tmp string, frames [][]edit, base uint64, size func(n int64) int64) (c manifestCopy, err error) {
	tmp = filepath.Join(m.dir, tmp)
	if err := m.fs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	salt := m.salt()
	h := segment.Header{Kind: segment.ManifestFile, StoreID: m.storeID, Salt: salt}
	c.key = segment.NewKey(salt)
	b := slices.Grow(h.Marshal(), int(editReserveBytes))
	for i, edits := range frames {
		// Durable is base for all: the snapshot is one step.
		fh := segment.FrameHeader{
			Kind: segment.Manifest, LSN: base + 1 + uint64(i), Durable: base, Count: uint32(len(edits)), Prev: c.prev,
		}
		b = segment.AppendFrame(b, &fh, c.key, int64(len(b)), appendEdits(nil, edits))
		c.prev = fh.CRC
	}
	c.pos = int64(len(b))
	const block = segment.HeaderBytes
	c.size = (max(size(c.pos), c.pos+editReserveBytes) + block - 1) &^ (block - 1)
	if c.f, err = m.fs.Create(tmp); err != nil {
		return c, err
	}
	n, err := c.f.WriteAt(b, 0)
	if err = errors.Join(err, shortWrite(n, len(b))); err == nil {
		err = writeZeros(c.f, c.pos, c.size)
	}
	if err == nil {
		err = c.f.Datasync()
	}
	if err != nil {
		m.discard([]manifestCopy{c})
	}
	return c, err
}

// writeZeros writes the blocks between two offsets ahead.
func writeZeros(f io.WriterAt, from, to int64) error {
	for from < to {
		step := zeros[:min(int64(len(zeros)), to-from)]
		n, err := f.WriteAt(step, from)
		if err = errors.Join(err, shortWrite(n, len(step))); err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

func shortWrite(n, want int) error {
	if n < want {
		return io.ErrShortWrite
	}
	return nil
}

func appendEdits(dst []byte, edits []edit) []byte {
	for _, e := range edits {
		dst = e.append(dst)
	}
	return dst
}

// close closes the files.
func (m *manifest) close() {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.mu.Lock()
	m.broken = ErrClosed
	m.mu.Unlock()
	for i := range m.copies {
		if m.copies[i].f != nil {
			m.copies[i].f.Close()
			m.copies[i].f = nil
		}
	}
}

// newSalt is a random number that is not 0.
func newSalt() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails
		if salt := binary.LittleEndian.Uint64(b[:]); salt != 0 {
			return salt
		}
	}
}
