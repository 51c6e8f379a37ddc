package blockdev

import (
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
)

// Record is what happened to a device.
type Record struct {
	Events []Event
	base   Image
}

// Cut is a moment at which the power may go. It is good until the next one is
// asked for; its images are good for ever.
type Cut struct {
	// Events came before it.
	Events int

	durable Image
	pending map[int64][]*block // versions of blocks since the last flush, oldest first
}

// Cuts goes through the moments at which the disk may hold something else than
// before, or something was noted, from the event from on. It begins before that
// event, and ends behind the last.
func (r Record) Cuts(from int) iter.Seq[*Cut] {
	return func(yield func(*Cut) bool) {
		c := &Cut{durable: r.base.clone(), pending: map[int64][]*block{}}
		for i, e := range r.Events {
			if c.Events = i; i == from && !yield(c) {
				return
			}
			c.step(e)
			if c.Events = i + 1; c.Events > from && e.Kind != Flush && !yield(c) {
				return
			}
		}
	}
}

// End is the moment behind the last event.
func (r Record) End() *Cut {
	c := &Cut{Events: len(r.Events), durable: r.base.clone(), pending: map[int64][]*block{}}
	for _, e := range r.Events {
		c.step(e)
	}
	return c
}

func (c *Cut) step(e Event) {
	switch {
	case !e.Done:
	case e.Kind == Write:
		eachBlock(e.Off, e.Data, func(n, from int64, p []byte) {
			versions := c.pending[n]
			before := c.durable.at(n)
			if len(versions) > 0 {
				before = versions[len(versions)-1]
			}
			c.pending[n] = append(versions, before.with(from, p))
		})
	case e.Kind == Flush:
		for n, versions := range c.pending {
			c.durable.blocks[n] = versions[len(versions)-1]
		}
		clear(c.pending)
	}
}

// Pending counts the blocks that were written and not flushed.
func (c *Cut) Pending() int { return len(c.pending) }

// None is the disk with nothing of what was not flushed.
func (c *Cut) None() Image { return c.durable.clone() }

// All is the disk with everything.
func (c *Cut) All() Image {
	return c.image(func(versions []*block) int { return len(versions) })
}

// Mix is the disk where each block that was written and not flushed holds some
// version, each by itself.
func (c *Cut) Mix(rng *rand.Rand) Image {
	return c.image(func(versions []*block) int { return rng.IntN(len(versions) + 1) })
}

// image lets choose say of each block how many of its versions came.
func (c *Cut) image(choose func(versions []*block) int) Image {
	m := c.durable.clone()
	for _, n := range slices.Sorted(maps.Keys(c.pending)) {
		if k := choose(c.pending[n]); k > 0 {
			m.blocks[n] = c.pending[n][k-1]
		}
	}
	return m
}
