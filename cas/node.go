package cas

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/blake3"
)

const (
	nodeHeaderBytes = 24
	nodeChildBytes  = 32 + 12
	nodeSumBytes    = 32
	nodeLevelMax    = 3
	chunkBytesMin   = 1 << 10

	// nodeChildrenMax bounds a node to 45 KiB. With 64 KiB chunks one level
	// reaches 64 MiB, two 64 GiB, three 64 TiB.
	nodeChildrenMax = 1024
)

// node is a part of a manifest: which chunks, or which nodes of the level
// below, make up a range of a payload.
//
//	0       1  version, 0
//	1       1  level: 0 lists chunks
//	2       2  0
//	4       4  number of children
//	8       4  chunk size: a power of two from 1 KiB to 64 KiB
//	12      4  fan-out: children of a full node
//	16      8  bytes of the payload that the node covers
//	24 44 * n  children: id (32), pack, offset, end of the record (4 each)
//	...    32  sum: BLAKE3 of all before, keyed for this use
//
// All children but the last are full, so a node's place in the payload is
// arithmetic. The root is stored under the payload's id, which says nothing of
// the node's own bytes: therefore every node carries its sum. The nodes below
// are stored under theirs. A payload of one chunk has no node.
type node struct {
	Level  uint8
	Chunk  uint32
	Fanout uint32
	Bytes  int64
	Child  []child
}

type child struct {
	ID   ID
	Hint Hint
}

// nodeSum has a key of its own so that no chunk's id can equal a node's.
func nodeSum(b []byte) ID {
	h := blake3.NewDeriveKey("durafs 2026 manifest node")
	h.Write(b)
	var id ID
	h.Sum(id[:0])
	return id
}

// span is how many bytes of the payload a full child covers.
func (n *node) span() int64 {
	s := int64(n.Chunk)
	for range n.Level {
		s *= int64(n.Fanout)
	}
	return s
}

// childBytes is the size of the payload's part below child i.
func (n *node) childBytes(i int) int64 {
	return min(n.span(), n.Bytes-int64(i)*n.span())
}

// marshal returns the encoded node and its sum.
func (n *node) marshal() ([]byte, ID) {
	b := make([]byte, nodeHeaderBytes, nodeHeaderBytes+len(n.Child)*nodeChildBytes+nodeSumBytes)
	b[1] = n.Level
	binary.LittleEndian.PutUint32(b[4:], uint32(len(n.Child)))
	binary.LittleEndian.PutUint32(b[8:], n.Chunk)
	binary.LittleEndian.PutUint32(b[12:], n.Fanout)
	binary.LittleEndian.PutUint64(b[16:], uint64(n.Bytes))
	for _, c := range n.Child {
		b = append(b, c.ID[:]...)
		b = binary.LittleEndian.AppendUint32(b, c.Hint.Pack)
		b = binary.LittleEndian.AppendUint32(b, c.Hint.Offset)
		b = binary.LittleEndian.AppendUint32(b, c.Hint.End)
	}
	sum := nodeSum(b)
	return append(b, sum[:]...), sum
}

// parseNode is the inverse of marshal.
func parseNode(b []byte) (*node, ID, error) {
	if len(b) < nodeHeaderBytes+nodeSumBytes {
		return nil, ID{}, fmt.Errorf("node of %d bytes", len(b))
	}
	body, sum := b[:len(b)-nodeSumBytes], ID(b[len(b)-nodeSumBytes:])
	if nodeSum(body) != sum {
		return nil, ID{}, fmt.Errorf("node's sum is wrong")
	}
	if b[0] != 0 || b[2] != 0 || b[3] != 0 {
		return nil, ID{}, fmt.Errorf("%w: node version %d", ErrFormat, b[0])
	}
	n := &node{
		Level:  b[1],
		Chunk:  binary.LittleEndian.Uint32(b[8:]),
		Fanout: binary.LittleEndian.Uint32(b[12:]),
		Bytes:  int64(binary.LittleEndian.Uint64(b[16:])),
	}
	count := int64(binary.LittleEndian.Uint32(b[4:]))
	if err := n.valid(count, len(body)); err != nil {
		return nil, ID{}, err
	}
	n.Child = make([]child, count)
	for i := range n.Child {
		p := body[nodeHeaderBytes+i*nodeChildBytes:]
		n.Child[i] = child{ID: ID(p[:32]), Hint: Hint{
			Pack:   binary.LittleEndian.Uint32(p[32:]),
			Offset: binary.LittleEndian.Uint32(p[36:]),
			End:    binary.LittleEndian.Uint32(p[40:]),
		}}
	}
	return n, sum, nil
}

// valid checks that the numbers of a node agree with each other.
func (n *node) valid(count int64, bodyBytes int) error {
	switch {
	case n.Level > nodeLevelMax:
		return fmt.Errorf("node of level %d", n.Level)
	case n.Chunk < chunkBytesMin || n.Chunk > ChunkBytes || n.Chunk&(n.Chunk-1) != 0:
		return fmt.Errorf("node with chunks of %d bytes", n.Chunk)
	case n.Fanout < 2 || n.Fanout > nodeChildrenMax:
		return fmt.Errorf("node with a fan-out of %d", n.Fanout)
	case count < 1 || count > int64(n.Fanout):
		return fmt.Errorf("node with %d children", count)
	case int64(bodyBytes) != nodeHeaderBytes+count*nodeChildBytes:
		return fmt.Errorf("node with %d children in %d bytes", count, bodyBytes)
	case n.Bytes <= (count-1)*n.span() || n.Bytes > count*n.span():
		return fmt.Errorf("node with %d children for %d bytes", count, n.Bytes)
	}
	return nil
}
