package blockdev

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// imageName is the one file there is.
	imageName = "image"
	imageNode = 2
	// requestBytesMax is the largest read or write that the kernel asks for.
	requestBytesMax = 1 << 20
)

// Serve serves an image as the file dir/image. dir must be an empty directory.
func Serve(dir string, base Image) (*Device, error) {
	d := newDevice(base)
	d.dir = dir
	server, err := fuse.NewServer(&imageFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), d: d}, dir, &fuse.MountOptions{
		FsName: "blockdev", Name: "blockdev", MaxWrite: requestBytesMax, DisableSplice: true, DisableXAttrs: true,
		DirectMountStrict: true, DirectMountFlags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC,
	})
	if err != nil {
		return nil, fmt.Errorf("blockdev: serve %s: %w", dir, err)
	}
	d.server = server
	go func() {
		server.Serve()
		close(d.served)
	}()
	if err := server.WaitMount(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Path is the file that the image is served as.
func (d *Device) Path() string { return filepath.Join(d.dir, imageName) }

// Close ends to serve the image. Where somebody uses it still they get errors
// from here on, and so does the caller.
func (d *Device) Close() error {
	err := unix.Unmount(d.dir, 0)
	if err != nil {
		err = errors.Join(fmt.Errorf("blockdev: unmount %s: %w", d.dir, err), unix.Unmount(d.dir, unix.MNT_DETACH|unix.MNT_FORCE))
	}
	<-d.served
	return err
}

// imageFS answers the kernel: a directory with one file.
type imageFS struct {
	fuse.RawFileSystem // ENOSYS for all the rest
	d                  *Device
}

func (f *imageFS) String() string { return "blockdev" }

func (f *imageFS) attr(node uint64) fuse.Attr {
	if node == fuse.FUSE_ROOT_ID {
		return fuse.Attr{Ino: node, Mode: fuse.S_IFDIR | 0o700, Nlink: 2}
	}
	return fuse.Attr{
		Ino: node, Mode: fuse.S_IFREG | 0o600, Nlink: 1, Size: uint64(f.d.base.Size),
		Blksize: BlockBytes, Blocks: uint64(f.d.base.Size) / 512,
	}
}

// attrSeconds is how long the kernel may keep what never changes.
const attrSeconds = 3600

func (f *imageFS) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if name != imageName {
		return fuse.ENOENT
	}
	out.NodeId, out.Attr = imageNode, f.attr(imageNode)
	out.AttrValid, out.EntryValid = attrSeconds, attrSeconds
	return fuse.OK
}

func (f *imageFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.Attr, out.AttrValid = f.attr(in.NodeId), attrSeconds
	return fuse.OK
}

// Open lets nothing be cached above: what the block layer flushes is flushed
// here.
func (f *imageFS) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

func (f *imageFS) Read(_ <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	n, err := f.d.read(p[:min(len(p), int(in.Size))], int64(in.Offset))
	return fuse.ReadResultData(p[:n]), status(err)
}

func (f *imageFS) Write(_ <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	err := f.d.happens(Event{Kind: Write, Off: int64(in.Offset), Data: bytes.Clone(p)})
	if err != nil {
		return 0, status(err)
	}
	return uint32(len(p)), fuse.OK
}

func (f *imageFS) Fsync(_ <-chan struct{}, _ *fuse.FsyncIn) fuse.Status {
	return status(f.d.happens(Event{Kind: Flush}))
}

func (f *imageFS) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

func status(err error) fuse.Status {
	var errno syscall.Errno
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &errno):
		return fuse.Status(errno)
	}
	return fuse.EIO
}
