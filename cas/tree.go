package cas

import "fmt"

// tree builds a payload's manifest from below: a level's node is stored when
// one more child than fits comes, so that the last node made is the root.
type tree struct {
	put   *put
	level []treeLevel
}

type treeLevel struct {
	child []child
	bytes int64
}

// add puts a child that covers bytes of the payload on a level.
func (t *tree) add(level int, c child, bytes int64) error {
	if level == len(t.level) {
		if level > nodeLevelMax {
			return fmt.Errorf("cas: payload is too large for a manifest of %d levels", nodeLevelMax+1)
		}
		t.level = append(t.level, treeLevel{})
	}
	if len(t.level[level].child) == t.put.s.opts.nodeChildren {
		if err := t.close(level); err != nil {
			return err
		}
	}
	l := &t.level[level]
	l.child = append(l.child, c)
	l.bytes += bytes
	return nil
}

// close stores the node of a level as a child of the level above.
func (t *tree) close(level int) error {
	bytes := t.level[level].bytes
	at, sum, err := t.store(level, kindNode, ID{})
	if err != nil {
		return err
	}
	t.level[level] = treeLevel{child: t.level[level].child[:0]}
	return t.add(level+1, child{ID: sum, Hint: at.hint}, bytes)
}

// finish stores what is open and the root, under the payload's id.
func (t *tree) finish(id ID) (place, error) {
	for level := 0; level < len(t.level)-1; level++ {
		if err := t.close(level); err != nil {
			return place{}, err
		}
	}
	at, _, err := t.store(len(t.level)-1, kindRoot, id)
	return at, err
}

// store appends the node of a level, under id or its sum. Nodes are not looked
// up first: an equal one may list chunks that are not durable yet.
func (t *tree) store(level int, k kind, id ID) (place, ID, error) {
	s, l := t.put.s, &t.level[level]
	n := &node{
		Level: uint8(level), Chunk: uint32(s.opts.chunkBytes), Fanout: uint32(s.opts.nodeChildren),
		Bytes: l.bytes, Child: l.child,
	}
	body, sum := n.marshal()
	if k == kindNode {
		id = sum
	}
	b := s.getBlock(1)
	defer s.putBlock(b)
	copy(b.room(len(body)), body)
	b.add(len(body))
	b.chunk[0].hdr.Kind, b.chunk[0].hdr.ID = k, id
	b.close(0)
	if err := s.append(t.put.ctx, b); err != nil {
		return place{}, sum, err
	}
	at := b.chunk[0].at
	t.put.need(at)
	return at, sum, nil
}
