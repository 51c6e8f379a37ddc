package fusefs_test

import (
	"io/fs"
	"syscall"
	"unsafe"
)

// ptr is the address of a field in a record of getdents.
func ptr(b []byte, at int) unsafe.Pointer { return unsafe.Pointer(&b[at]) }

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
