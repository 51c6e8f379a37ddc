package runs

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// links find the runs that share something (a label and its value, a parent, a
// user): the numbers of each in the order of their admissions, so that a page
// of a list looks at its own runs and not at all there are. They are made from
// the index, which says who the runs are, and hold hashes only: whoever uses
// them compares.
//
// A run whose admission was undone stays in them; its phase says so.
type links struct {
	heads map[uint64]runList
	lists runLists
	done  int // of index.byAdmit
}

// runList is a list in the arena: a block of the class that fits n.
type runList struct{ block, n uint32 }

// runLists is an arena of lists of run numbers: a list is a block of 2^k, and
// one that outgrows it moves to the next class. A short list costs what is in
// it.
type runLists struct {
	classes [32]struct {
		chunks [][]uint32
		blocks uint32
		free   []uint32
	}
}

const runListChunk = 16384 // numbers per chunk of small blocks

func runListClass(n uint32) int { return bits.Len32(n - 1) }

func (x *runLists) block(class int, b uint32) []uint32 {
	size := uint32(1) << class
	per := max(1, runListChunk/size)
	at := b % per * size
	return x.classes[class].chunks[b/per][at : at+size]
}

// of is a list's numbers; they may be read until the next push.
func (x *runLists) of(l runList) []uint32 {
	if l.n == 0 {
		return nil
	}
	return x.block(runListClass(l.n), l.block)[:l.n]
}

func (x *runLists) push(l runList, num uint32) runList {
	if l.n == 0 {
		l.block = x.alloc(0)
	} else if class := runListClass(l.n); class != runListClass(l.n+1) {
		b := x.alloc(class + 1)
		copy(x.block(class+1, b), x.of(l))
		x.classes[class].free = append(x.classes[class].free, l.block)
		l.block = b
	}
	l.n++
	x.of(l)[l.n-1] = num
	return l
}

func (x *runLists) alloc(class int) uint32 {
	c := &x.classes[class]
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b
	}
	size := uint32(1) << class
	per := max(1, runListChunk/size)
	if c.blocks%per == 0 {
		c.chunks = append(c.chunks, make([]uint32, per*size))
	}
	c.blocks++
	return c.blocks - 1
}

// What a link is of.
const (
	linkLabel byte = iota
	linkParent
	linkUser
)

func (x *index) linkKey(of byte, parts ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	h.WriteByte(of)
	for _, p := range parts {
		h.WriteByte(byte(len(p)))
		h.WriteByte(byte(len(p) >> 8))
		h.Write(p)
	}
	return h.Sum64()
}

func (x *index) userKey(uid uint32) uint64 {
	return x.linkKey(linkUser, binary.LittleEndian.AppendUint32(nil, uid))
}

// catchUp links the runs that were admitted since. A run's user is in its
// record, which is in the batch of its admission. Most have the user of the one
// before: that list is at hand.
func (x *index) catchUp() {
	l := &x.links
	if l.heads == nil {
		l.heads = map[uint64]runList{}
	}
	if l.done == len(x.byAdmit) {
		return
	}
	uid := x.startedBy(x.byAdmit[l.done])
	user := x.userKey(uid)
	list := l.heads[user]
	for ; l.done < len(x.byAdmit); l.done++ {
		num := x.byAdmit[l.done]
		link := func(key uint64) {
			if key == user {
				list = l.lists.push(list, num)
				return
			}
			l.heads[key] = l.lists.push(l.heads[key], num)
		}
		if by := x.startedBy(num); by != uid {
			l.heads[user] = list
			uid, user = by, x.userKey(by)
			list = l.heads[user]
		}
		link(user)
		if parent := x.parent(num); parent[0] != textNoID {
			link(x.linkKey(linkParent, parent))
		}
		x.labels(num, func(name, value []byte) bool {
			link(x.linkKey(linkLabel, name, value))
			return true
		})
	}
	l.heads[user] = list
}

// linked are the runs under a key, perhaps among others of the same hash, in
// the order of their admissions.
func (x *index) linked(key uint64) []uint32 { return x.links.lists.of(x.links.heads[key]) }

// inThread lists the newest runs of a thread, at most n, oldest first.
func (x *index) inThread(thread string, n int) []uint32 {
	all := x.linked(x.linkKey(linkLabel, []byte("thread"), []byte(thread)))
	var nums []uint32
	for i := len(all) - 1; i >= 0 && len(nums) < n; i-- {
		if num := all[i]; x.phase(num) != PhaseNone && string(x.label(num, "thread")) == thread {
			nums = append(nums, num)
		}
	}
	for i, j := 0, len(nums)-1; i < j; i, j = i+1, j-1 {
		nums[i], nums[j] = nums[j], nums[i]
	}
	return nums
}
