package store

import "durafs/internal/vfs"

// untrusted are file systems, by statfs magic number, whose flock may be local
// to one of several machines or whose fsync may answer before anything is on a
// disk. Numbers: linux/magic.h.
var untrusted = map[int64]string{
	0x6969:     "nfs",
	0x5346414f: "afs",
	0x6b414653: "afs",
	0x517b:     "smb",
	0xfe534d42: "smb",
	0xff534d42: "cifs",
	0x65735546: "fuse",
	0x01021997: "9p",
	0x00c36400: "ceph",
	0x73757245: "coda",
}

// checkFilesystem refuses to put a store where crashes are not survived.
func checkFilesystem(fsys vfs.FS, dir string) error {
	u, err := fsys.Usage(dir)
	if err != nil {
		return err
	}
	if name, ok := untrusted[u.Type]; ok {
		return &FilesystemError{Dir: dir, Type: name}
	}
	return nil
}
