package simdisk

import "math/rand/v2"

// keptBy is what the device has of a file after a sync that failed.
func (n *node) keptBy(keep Keep) content {
	switch keep.Kind {
	case KeepAll:
		return n.onDevice()
	case KeepSize:
		k := n.kept
		k.own()
		cutTo(&k, n.now.size, nil)
		return k
	case KeepMix:
		return n.mixed(rand.New(rand.NewPCG(keep.Seed, uint64(n.id))))
	}
	return n.kept
}

// mixed is what the device has if each sector is old or new by chance.
func (n *node) mixed(rng *rand.Rand) content {
	k := n.kept
	k.own()
	size := k.size
	for _, ch := range n.changes {
		for _, p := range ch.parts {
			if rng.IntN(2) == 0 {
				k.set(p.i, p.s)
			}
		}
		if rng.IntN(2) == 0 {
			size = ch.size
		}
	}
	cutTo(&k, size, nil)
	return k
}

// cutTo gives a content another size; behind its end nothing is left.
func cutTo(c *content, size int64, a *arena) {
	if i, n := size/SectorBytes, int(size%SectorBytes); n > 0 {
		c.set(i, a.orNew().head(i, c.at(i), n))
	}
	c.zeroFrom((size + SectorBytes - 1) / SectorBytes)
	c.size = size
}

func (a *arena) orNew() *arena {
	if a == nil {
		return new(arena)
	}
	return a
}

// namesKeptBy says for each pending change of names whether a sync that failed
// made it durable: the first ones, up to some point. Those behind it are
// pending still, so that one before them must not be.
func (c *core) namesKeptBy(keep Keep) []bool {
	kept := make([]bool, len(c.ops))
	n := 0
	switch keep.Kind {
	case KeepAll:
		n = len(kept)
	case KeepMix:
		n = rand.New(rand.NewPCG(keep.Seed, 0)).IntN(len(kept) + 1)
	}
	fill(kept[:n], true)
	return kept
}
