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
	"sync"
	"sync/atomic"

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

	edits atomic.Uint64

	// mu guards what follows, and is held while an edit is written: there is
	// one owner at a time.
	mu    sync.Mutex
	state manifestState
	// seq numbers the frames; that of the last one that is in both copies.
	seq    uint64
	copies [2]manifestCopy
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return m.broken
	}
	next := m.state.clone()
	for _, e := range edits {
		if err := e.apply(&next); err != nil {
			return fmt.Errorf("wal: manifest: %w", err)
		}
	}
	payload := appendEdits(nil, edits)
	if !m.hasRoom(int64(len(payload))) {
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
	m.state = next
	m.edits.Add(1)
	return nil
}

func (m *manifest) hasRoom(payload int64) bool {
	for _, c := range m.copies {
		if c.f == nil || c.pos+segment.FrameBytes(payload) > c.size {
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
	frame := segment.AppendFrame(nil, &h, c.key, c.pos, payload)
	if n, err := c.f.WriteAt(frame, c.pos); err != nil || n < len(frame) {
		return fmt.Errorf("%s %w: %w", c.f.Name(), errNotWritten, errors.Join(err, shortWrite(n, len(frame))))
	}
	if err := c.f.Datasync(); err != nil {
		return err
	}
	c.pos += int64(len(frame))
	c.prev = h.CRC
	return nil
}

// replace makes both copies anew after a write to one of them failed. If that
// fails too, nobody knows whether a copy has the edit.
func (m *manifest) replace(next manifestState, cause error) error {
	m.log.Warn("a copy of the manifest is made anew", "cause", cause)
	if err := m.rewrite(next); err != nil {
		return m.breakOff(errors.Join(cause, err))
	}
	return nil
}

// breakOff makes the manifest, and with it the log, take no change any more.
func (m *manifest) breakOff(cause error) error {
	if m.broken != nil {
		return m.broken
	}
	m.broken = fmt.Errorf("%w: manifest: %w", ErrPoisoned, cause)
	m.fail(fmt.Errorf("manifest: %w", cause))
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
	frames := snapshotFrames(&next)
	base := m.seq
	var fresh [2]manifestCopy
	for i, name := range manifestNames {
		c, err := m.writeCopy(name+tmpSuffix, frames, base)
		if err != nil {
			m.discard(fresh[:i])
			return asNoSpace(m.fs, m.dir, err)
		}
		fresh[i] = c
	}
	for i, name := range manifestNames {
		if err := m.install(name, fresh[i]); err != nil {
			m.discard(fresh[i:])
			return m.breakOff(err)
		}
		if m.copies[i].f != nil {
			m.copies[i].f.Close()
		}
		m.copies[i] = fresh[i]
	}
	m.seq = base + uint64(len(frames))
	m.state = next
	m.edits.Add(1)
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

func (m *manifest) install(name string, c manifestCopy) error {
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
// first frame is base+1.
func (m *manifest) writeCopy(tmp string, frames [][]edit, base uint64) (c manifestCopy, err error) {
	tmp = filepath.Join(m.dir, tmp)
	if err := m.fs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	salt := newSalt()
	h := segment.Header{Kind: segment.ManifestFile, StoreID: m.storeID, Salt: salt}
	c.key = segment.NewKey(salt)
	b := h.Marshal()
	for i, edits := range frames {
		// Durable is base for all: the snapshot is one step.
		fh := segment.FrameHeader{
			Kind: segment.Manifest, LSN: base + 1 + uint64(i), Durable: base, Count: uint32(len(edits)), Prev: c.prev,
		}
		b = segment.AppendFrame(b, &fh, c.key, int64(len(b)), appendEdits(nil, edits))
		c.prev = fh.CRC
	}
	c.pos = int64(len(b))
	c.size = max(manifestBytesMin, 4*c.pos) &^ (segment.HeaderBytes - 1)
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
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = ErrClosed
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
