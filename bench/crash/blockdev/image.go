package blockdev

import (
	"errors"
	"maps"
	"os"

	"golang.org/x/sys/unix"
)

// BlockBytes is what a power cut leaves old or new as a whole.
const BlockBytes = 4096

type block [BlockBytes]byte

var zeroBlock block

// Image is what a disk holds. A block that is not there is zeros.
type Image struct {
	Size   int64
	blocks map[int64]*block // by number; a block never changes in place
}

// NewImage is a disk of so many bytes, whole blocks, all zeros.
func NewImage(size int64) Image {
	return Image{Size: size / BlockBytes * BlockBytes, blocks: map[int64]*block{}}
}

// ReadImage reads an image from a file, but for its holes.
func ReadImage(name string) (Image, error) {
	f, err := os.Open(name)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Image{}, err
	}
	img := NewImage(info.Size())
	err = eachData(int(f.Fd()), img.Size, func(n int64) error {
		b := new(block)
		if _, err := f.ReadAt(b[:], n*BlockBytes); err != nil {
			return err
		}
		if *b != zeroBlock {
			img.blocks[n] = b
		}
		return nil
	})
	return img, err
}

// eachData calls fn with the number of each block of a file that is no hole.
func eachData(fd int, size int64, fn func(n int64) error) error {
	for off := int64(0); off < size; {
		from, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // the rest is a hole
		}
		if err != nil {
			return err
		}
		to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		for n := from / BlockBytes; n*BlockBytes < min(to, size); n++ {
			if err := fn(n); err != nil {
				return err
			}
		}
		off = to
	}
	return nil
}

func (m *Image) clone() Image { return Image{Size: m.Size, blocks: maps.Clone(m.blocks)} }

// at is the block of this number; it must not be changed.
func (m *Image) at(n int64) *block {
	if b := m.blocks[n]; b != nil {
		return b
	}
	return &zeroBlock
}

// write writes data, and puts new blocks where it touches any.
func (m *Image) write(off int64, data []byte) {
	eachBlock(off, data, func(n, from int64, p []byte) {
		m.blocks[n] = m.at(n).with(from, p)
	})
}

// with is the block with p written over it.
func (b *block) with(from int64, p []byte) *block {
	c := new(block)
	if len(p) < BlockBytes {
		*c = *b
	}
	copy(c[from:], p)
	return c
}

func (m *Image) read(p []byte, off int64) {
	eachBlock(off, p, func(n, from int64, p []byte) { copy(p, m.at(n)[from:]) })
}

// eachBlock calls fn for the part of data that lies in each block.
func eachBlock(off int64, data []byte, fn func(n, from int64, p []byte)) {
	for len(data) > 0 {
		n, from := off/BlockBytes, off%BlockBytes
		p := data[:min(int64(len(data)), BlockBytes-from)]
		fn(n, from, p)
		off, data = off+int64(len(p)), data[len(p):]
	}
}

// WriteFile keeps the image as a file with holes, to be mounted by hand.
func (m Image) WriteFile(name string) (err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(m.Size); err != nil {
		return err
	}
	for n, b := range m.blocks {
		if _, err := f.WriteAt(b[:], n*BlockBytes); err != nil {
			return err
		}
	}
	return nil
}
