package blockdev

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Stage is a loop device on memory that shows one image after the other. It is
// not for concurrent use.
type Stage struct {
	*Loop
	file  *os.File
	bytes []byte // the file's, shared with it
}

// NewStage makes a stage for images of this size. name is what the kernel calls
// its memory.
func NewStage(name string, size int64) (*Stage, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("blockdev: memory for %s: %w", name, err)
	}
	s := &Stage{file: os.NewFile(uintptr(fd), name)}
	if err = s.file.Truncate(size); err == nil {
		s.bytes, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		s.Loop, err = attach(fd, 0)
	}
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// Show puts an image on the device, which must not be mounted. Only blocks that
// differ are written.
func (s *Stage) Show(m Image) error {
	if m.Size != int64(len(s.bytes)) {
		return fmt.Errorf("blockdev: an image of %d bytes on a stage of %d", m.Size, len(s.bytes))
	}
	err := eachData(int(s.file.Fd()), m.Size, func(n int64) error {
		if there := s.block(n); m.blocks[n] == nil && *there != zeroBlock {
			*there = zeroBlock
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n, b := range m.blocks {
		if there := s.block(n); *there != *b {
			*there = *b
		}
	}
	// What the kernel has read of the device before is not it any more.
	return unix.IoctlSetInt(s.fd, unix.BLKFLSBUF, 0)
}

func (s *Stage) block(n int64) *block { return (*block)(s.bytes[n*BlockBytes:][:BlockBytes]) }

// Close takes the device and its memory away.
func (s *Stage) Close() error { return errors.Join(s.Detach(), s.release()) }

func (s *Stage) release() error {
	var err error
	if s.bytes != nil {
		err = unix.Munmap(s.bytes)
	}
	return errors.Join(err, s.file.Close())
}
