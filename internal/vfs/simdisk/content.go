package simdisk

import (
	"hash/maphash"
	"slices"
)

// sector is one version of a sector. It is never changed.
type sector struct {
	p *[SectorBytes]byte // nil: zeros
	// h is the sector's share of the content's hash: of the bytes and of where
	// they stand; 0 for zeros.
	h uint64
}

var (
	zeroSector [SectorBytes]byte
	seed       = maphash.MakeSeed()
)

// content is the bytes of a file. Its pages may be shared with other contents:
// a copy of it must own before it is changed.
type content struct {
	size int64
	// pages may end before the size does, and each may be nil: the rest is
	// zeros.
	pages []*page
	sum   uint64 // of all h
	owner *owner
}

// pageSectors are kept, and copied when one of them changes, together.
const pageSectors = 32

// page is a run of sectors. Only the content that owns it changes it.
type page struct {
	owner   *owner
	sectors [pageSectors]sector
}

// owner tells whose a page is. It has a size, so that no two have one address.
type owner struct{ _ byte }

// sectors is up to which sector there may be one that is not zeros.
func (c *content) sectors() int64 { return int64(len(c.pages)) * pageSectors }

func (c *content) at(i int64) sector {
	if k := i / pageSectors; k < int64(len(c.pages)) && c.pages[k] != nil {
		return c.pages[k].sectors[i%pageSectors]
	}
	return sector{}
}

// set changes a sector of a content that owns.
func (c *content) set(i int64, s sector) {
	k := i / pageSectors
	if k >= int64(len(c.pages)) {
		if s.p == nil {
			return
		}
		c.pages = append(c.pages, make([]*page, k+1-int64(len(c.pages)))...)
	}
	p := c.pages[k]
	switch {
	case p == nil && s.p == nil:
		return
	case p == nil:
		p = &page{owner: c.owner}
		c.pages[k] = p
	case p.owner != c.owner || p.owner == nil:
		p = &page{c.owner, p.sectors}
		c.pages[k] = p
	}
	at := &p.sectors[i%pageSectors]
	c.sum += s.h - at.h
	*at = s
}

// own makes the content one that can be changed: what it shares it copies then.
func (c *content) own() { c.pages, c.owner = slices.Clone(c.pages), new(owner) }

// zeroFrom lets all sectors from i on be zeros.
func (c *content) zeroFrom(i int64) {
	for ; i < c.sectors() && i%pageSectors != 0; i++ {
		c.set(i, sector{})
	}
	for k := i / pageSectors; k < int64(len(c.pages)); k++ {
		if p := c.pages[k]; p != nil {
			for j := range p.sectors {
				c.sum -= p.sectors[j].h
			}
		}
	}
	c.pages = c.pages[:min(int64(len(c.pages)), (i+pageSectors-1)/pageSectors)]
}

// hash tells contents apart.
func (c *content) hash() uint64 { return hashFile(c.sum, c.size) }

func hashFile(sum uint64, size int64) uint64 { return mix(sum, uint64(size)) }

// read copies what lies at off into p and tells how much there is.
func (c *content) read(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for at := 0; at < len(p); {
		pos := off + int64(at)
		i, skip := pos/SectorBytes, int(pos%SectorBytes)
		n := min(SectorBytes-skip, len(p)-at)
		if s := c.at(i); s.p != nil {
			copy(p[at:at+n], s.p[skip:])
		} else {
			clear(p[at : at+n])
		}
		at += n
	}
	return len(p)
}

// arena gives out sectors from larger pieces.
type arena []byte

const arenaBytes = 16 * SectorBytes

func (a *arena) sector(i int64, p []byte) sector {
	s := a.take()
	copy(s[:], p)
	return sector{s, hashSector(i, s[:])}
}

func (a *arena) take() *[SectorBytes]byte {
	if len(*a) < SectorBytes {
		*a = make([]byte, arenaBytes)
	}
	s := (*[SectorBytes]byte)((*a)[:SectorBytes])
	*a = (*a)[SectorBytes:]
	return s
}

func hashSector(i int64, p []byte) uint64 { return mix(maphash.Bytes(seed, p), uint64(i)) }

func isZero(p []byte) bool {
	if len(p) == SectorBytes {
		return *(*[SectorBytes]byte)(p) == zeroSector
	}
	return string(p) == string(zeroSector[:len(p)])
}

// mix makes one number of two so that none of their bits is lost.
func mix(a, b uint64) uint64 {
	x := a ^ (b+1)*0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 29
	x *= 0xff51afd7ed558ccd
	return x ^ x>>32
}

// change is one write or truncation of a file. It is never changed.
type change struct {
	parts []part // the sectors that are other than before, in order
	size  int64  // of the file from then on
	off   int64
	len   int64
	cut   bool // a truncation
}

type part struct {
	i int64
	s sector
}

// writeOf is the change that a write of p at off makes to a content. With all
// also sectors that are as they were are parts.
func (a *arena) writeOf(c *content, p []byte, off int64, all bool) *change {
	end := off + int64(len(p))
	ch := &change{size: max(c.size, end), off: off, len: int64(len(p))}
	for i := off / SectorBytes; i*SectorBytes < end; i++ {
		lo, hi := max(off, i*SectorBytes), min(end, (i+1)*SectorBytes)
		ch.add(i, a.merge(i, c.at(i), p[lo-off:hi-off], int(lo-i*SectorBytes)), c.at(i), all)
	}
	return ch
}

// put makes a write to a content that owns, without a change to tell of it. The
// hashes are not kept up.
func (a *arena) put(c *content, p []byte, off int64) {
	end := off + int64(len(p))
	for i := off / SectorBytes; i*SectorBytes < end; i++ {
		lo, hi := max(off, i*SectorBytes), min(end, (i+1)*SectorBytes)
		part, at := p[lo-off:hi-off], int(lo-i*SectorBytes)
		old := c.at(i)
		if old.p == nil && isZero(part) {
			continue
		}
		s := a.take()
		if old.p != nil && len(part) < SectorBytes {
			*s = *old.p
		}
		copy(s[at:], part)
		c.set(i, sector{p: s})
	}
	c.size = max(c.size, end)
}

// merge is a sector with p at some place in it.
func (a *arena) merge(i int64, old sector, p []byte, at int) sector {
	if len(p) < SectorBytes {
		var b [SectorBytes]byte
		if old.p != nil {
			b = *old.p
		}
		copy(b[at:], p)
		p = b[:]
	}
	if isZero(p) {
		return sector{}
	}
	return a.sector(i, p)
}

func (ch *change) add(i int64, s, old sector, all bool) {
	if all || s.h != old.h {
		ch.parts = append(ch.parts, part{i, s})
	}
}

// cutOf is the change that a truncation makes: what lies behind the end will
// read as zeros when the file grows again.
func (a *arena) cutOf(c *content, size int64, all bool) *change {
	ch := &change{size: size, len: size, cut: true}
	i := size / SectorBytes
	if n := int(size % SectorBytes); n > 0 {
		ch.add(i, a.head(i, c.at(i), n), c.at(i), all)
		i++
	}
	for ; i < c.sectors(); i++ {
		ch.add(i, sector{}, c.at(i), false)
	}
	return ch
}

// head is a sector with zeros behind its first n bytes.
func (a *arena) head(i int64, s sector, n int) sector {
	if s.p == nil || isZero(s.p[n:]) {
		return s
	}
	if isZero(s.p[:n]) {
		return sector{}
	}
	var b [SectorBytes]byte
	copy(b[:n], s.p[:n])
	return a.sector(i, b[:])
}

// firstBytes is the first n bytes of a write, as a change of before.
func (a *arena) firstBytes(ch *change, before *content, n int64) *change {
	end := ch.off + n
	head := &change{off: ch.off, len: n, size: before.size}
	if n > 0 {
		head.size = max(before.size, end)
	}
	for _, p := range ch.parts {
		switch from := p.i * SectorBytes; {
		case from+SectorBytes <= end:
			head.parts = append(head.parts, p)
		case from < end:
			b := zeroSector
			if p.s.p != nil {
				b = *p.s.p
			}
			old := before.at(p.i)
			rest := zeroSector[:]
			if old.p != nil {
				rest = old.p[:]
			}
			copy(b[end-from:], rest[end-from:])
			s := sector{}
			if !isZero(b[:]) {
				s = a.sector(p.i, b[:])
			}
			head.add(p.i, s, old, false)
		}
	}
	return head
}

// apply makes a change to a content that owns.
func (c *content) apply(ch *change) {
	for _, p := range ch.parts {
		c.set(p.i, p.s)
	}
	c.size = ch.size
}
