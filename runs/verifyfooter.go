package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"durafs/wal"
)

// FooterCheck holds what the footers of sealed segments say against the batches
// of these segments: it works them out again, and compares byte for byte. The
// hash of a file tells that it is as it was sealed; this tells that what was
// sealed is right. It is for whoever checks a log without opening it, and for
// one goroutine.
type FooterCheck struct {
	begun bool
	off   bool              // what came before is not known
	whole whole             // as the segments so far leave it
	tails map[uint32]uint32 // of runs, the last of these segments with parts
	read  map[uint32]wal.Sections
	refs  []tableRef // of the tables that no later one has taken over
}

// Segment checks the next sealed segment, the first of a log first. wrong is
// what its footer says wrongly, "" if nothing. From a footer on that cannot be
// read (sections is nil), or a batch that has rotted since, nothing can be said
// any more.
func (c *FooterCheck) Segment(seg uint32, first bool, sections wal.Sections, batches wal.Batches) (wrong string, err error) {
	if !c.begun {
		c.begun, c.off = true, !first
		c.whole, c.tails, c.read = newWhole(), map[uint32]uint32{}, map[uint32]wal.Sections{}
	}
	if c.off || sections == nil {
		c.off = true
		return "", nil
	}
	wrong, err = c.segment(seg, sections, batches)
	if rotten(err) != nil || errors.Is(err, errStop) {
		wrong, err, c.off = "", nil, true // Verify tells of it
	}
	c.off = c.off || wrong != "" || err != nil
	return wrong, err
}

func (c *FooterCheck) segment(seg uint32, sections wal.Sections, batches wal.Batches) (wrong string, err error) {
	listed, wrong := c.listed(seg, sections)
	if wrong != "" {
		return wrong, nil
	}
	d := newDerived(seg, c.whole.clone())
	d.apart = map[uint32]bool{}
	for num := range listed {
		d.apart[num] = true
	}
	err = batches(d.add, func(lost *wal.DamageError) error {
		if num := uint32(lost.Run); listed[num] {
			d.listed[num], d.newest = true, max(d.newest, num)
			return nil
		}
		return errStop
	})
	if err != nil {
		return "", err
	}
	d.end(func(num uint32) uint32 { return c.tails[num] })
	before, err := c.older(seg, sections)
	if rotten(err) != nil {
		return "", err
	}
	if err != nil {
		return err.Error(), nil
	}
	m := new(memSections)
	if err := d.write(m, before); err != nil {
		return "", err
	}
	for kind, name := range sectionNames {
		if len(listed) > 0 && kind != sectionParts && kind != sectionKeys {
			continue // what of a run counts that has lost something, its open decided
		}
		same, err := sameSection(m, sections, kind)
		if rotten(err) != nil {
			return "", err
		}
		if err != nil || !same {
			return "the footer's " + name + " are not what the batches make" + because(err), nil
		}
	}
	return "", c.passed(d, sections)
}

// sectionNames are what is compared.
var sectionNames = map[uint32]string{
	sectionTable: "run table's rows", sectionWhole: "settings and journals", sectionThreads: "threads",
	sectionParts: "places of rows and payloads", sectionKeys: "keys", sectionFilter: "keys' filters",
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(": %v", err)
}

// listed are the runs that a footer says it leaves out.
func (c *FooterCheck) listed(seg uint32, sections wal.Sections) (listed map[uint32]bool, wrong string) {
	r, ok := sections.Section(sectionApart)
	if !ok {
		return nil, ""
	}
	listed, err := readApart(r, seg)
	if err != nil {
		return nil, err.Error()
	}
	return listed, ""
}

// older opens the tables that the table of a footer says to have taken over.
func (c *FooterCheck) older(seg uint32, sections wal.Sections) (o older, err error) {
	t, err := tableOf(sections, true)
	if err != nil {
		return o, err
	}
	if t.to != seg {
		return o, badTable("it is that of segment %d", t.to)
	}
	n := 0
	for n < len(c.refs) && c.refs[len(c.refs)-1-n].from >= t.from {
		n++
	}
	for _, ref := range c.refs[len(c.refs)-n:] {
		t, err := tableOf(c.read[ref.to], true)
		if err != nil {
			return o, err
		}
		threads, err := threadsOf(c.read[ref.to])
		if err != nil {
			return o, err
		}
		o.tables, o.threads = append(o.tables, t), append(o.threads, threads)
	}
	return o, nil
}

// passed goes on behind a segment that is right.
func (c *FooterCheck) passed(d *derived, sections wal.Sections) (err error) {
	c.whole = d.whole
	if len(d.listed) > 0 {
		if c.whole, err = readWhole(sections, d.seg); err != nil {
			return err
		}
	}
	for num, r := range d.runs {
		if r.hasParts() {
			c.tails[num] = d.seg
		}
	}
	for _, ref := range c.refs[len(c.refs)-d.merged:] {
		delete(c.read, ref.to)
	}
	c.refs = append(c.refs[:len(c.refs)-d.merged], d.ref)
	c.read[d.seg] = sections
	return nil
}

// sameSection compares a section of a footer with that of another one.
func sameSection(a, b wal.Sections, kind uint32) (bool, error) {
	x, okX := a.Section(kind)
	y, okY := b.Section(kind)
	if okX != okY {
		return false, nil
	}
	if !okX {
		return true, nil
	}
	if x.Size() != y.Size() {
		return false, nil
	}
	bufX, bufY := make([]byte, compareBytes), make([]byte, compareBytes)
	for {
		n, err := io.ReadFull(x, bufX)
		if _, errY := io.ReadFull(y, bufY[:n]); errY != nil && n > 0 {
			return false, errY
		}
		switch {
		case !bytes.Equal(bufX[:n], bufY[:n]):
			return false, nil
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return true, nil
		case err != nil:
			return false, err
		}
	}
}

const compareBytes = 64 << 10
