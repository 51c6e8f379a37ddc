package vfs

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Op names a method of FS, File or Dir. Ops are bits, so that a set of them is
// their disjunction: OpWrite|OpDatasync.
type Op uint32

// One Op for each method that calls the operating system.
const (
	OpCreate Op = 1 << iota
	OpOpen
	OpOpenWrite
	OpOpenDir
	OpMkdir
	OpRename
	OpRemove
	OpReadDir
	OpStat
	OpUsage
	OpRead
	OpReadUncached
	OpWrite
	OpDatasync
	OpWriteBehind
	OpTruncate
	OpSize
	OpClose
	OpDirSync
	OpDirClose

	opEnd
)

// Sets of ops that tests ask for.
const (
	OpAll = opEnd - 1
	// OpSyncs make something durable.
	OpSyncs = OpDatasync | OpDirSync
	// OpChanges change names or content; a file system that is full or read
	// only can refuse each of them.
	OpChanges = OpCreate | OpMkdir | OpRename | OpRemove | OpWrite | OpTruncate
	// OpReads look at names and content.
	OpReads = OpOpen | OpReadDir | OpStat | OpRead | OpReadUncached | OpSize
)

var opNames = [...]string{
	"create", "open", "openwrite", "opendir", "mkdir", "rename", "remove",
	"readdir", "stat", "usage", "read", "readuncached", "write", "datasync",
	"writebehind", "truncate", "size", "close", "dirsync", "dirclose",
}

// String joins the names of the ops in the set with "|".
func (o Op) String() string {
	var names []string
	for rest := o & OpAll; rest != 0; rest &= rest - 1 {
		names = append(names, opNames[bits.TrailingZeros32(uint32(rest))])
	}
	return strings.Join(names, "|")
}

// Call is one call of a method.
type Call struct {
	Op   Op
	Name string
	// To is the new name of a rename.
	To string
	// Off and Len are the range of a read, write or write-behind; Len is the
	// size of a truncate.
	Off, Len int64

	// Begin and End order calls: they count the beginnings and returns of all
	// calls on one Recorder. A call was over before another began if its End
	// is below the other's Begin.
	Begin, End int
	// Err is what the call returned.
	Err error
}

// String is one line: the op, the name, the range, the error.
//
//	write wal/1.seg 4096+512
//	rename a.tmp -> a
//	datasync wal/1.seg: input/output error
func (c Call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", c.Op, c.Name)
	switch c.Op {
	case OpRename:
		fmt.Fprintf(&b, " -> %s", c.To)
	case OpRead, OpReadUncached, OpWrite, OpWriteBehind:
		fmt.Fprintf(&b, " %d+%d", c.Off, c.Len)
	case OpTruncate:
		fmt.Fprintf(&b, " %d", c.Len)
	}
	if c.Err != nil {
		fmt.Fprintf(&b, ": %v", rootCause(c.Err))
	}
	return b.String()
}

// rootCause strips what repeats the op and the name.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
