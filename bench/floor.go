package bench

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// floorFile is the hardware's own log: pwrite and fdatasync on blocks that
// were written before, and nothing else.
type floorFile struct {
	f    *os.File
	size int64
	off  int64
	buf  []byte
}

// floorFileBytes is large enough that a round seldom wraps around.
const floorFileBytes = 64 << 20

func newFloorFile(dir string) (*floorFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, "floor"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	ff := &floorFile{f: f, size: floorFileBytes, buf: make([]byte, 1<<20)}
	for off := int64(0); off < ff.size; off += int64(len(ff.buf)) {
		if _, err := f.WriteAt(ff.buf, off); err != nil {
			f.Close()
			return nil, err
		}
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		f.Close()
		return nil, err
	}
	return ff, nil
}

func (ff *floorFile) Close() error { return ff.f.Close() }

// barrier writes n bytes behind the last ones and makes them durable.
func (ff *floorFile) barrier(n int) error {
	if ff.off+int64(n) > ff.size {
		ff.off = 0
	}
	if _, err := ff.f.WriteAt(ff.buf[:n], ff.off); err != nil {
		return err
	}
	ff.off += int64(n)
	return unix.Fdatasync(int(ff.f.Fd()))
}

// barriers repeats barrier for a while and tells each one's time.
func (ff *floorFile) barriers(n int, during time.Duration) (took []time.Duration, err error) {
	for begin := time.Now(); len(took) == 0 || time.Since(begin) < during; {
		t := time.Now()
		if err := ff.barrier(n); err != nil {
			return nil, err
		}
		took = append(took, time.Since(t))
	}
	return took, nil
}

// streamFloor writes n bytes of a new file one after the other, makes them
// durable with one fdatasync, and tells MB/s.
func streamFloor(dir string, block []byte, n int64) (float64, error) {
	f, err := os.CreateTemp(dir, "stream-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	begin := time.Now()
	for done := int64(0); done < n; done += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return 0, err
	}
	return mbPerSecond(n, time.Since(begin)), nil
}

func mbPerSecond(n int64, d time.Duration) float64 { return float64(n) / 1e6 / d.Seconds() }
