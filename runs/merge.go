package runs

import (
	"io"
	"math"
	"math/bits"
	"slices"

	"durafs/wal"
)

// A run that lives long stands in the table of every segment that it writes
// to, and there may be thousands of segments. So that an open reads few of
// these rows, the table that is written with a segment takes over those of the
// segments before it as soon as mergeFanout of about the same size have come
// together. Then there are less than mergeFanout tables of each size, each
// mergeFanout times as large as those before: an open reads a number of rows
// that depends on how many runs there are, and hardly on how many rows they
// have, and a run is written again once for each size, not for each segment.
//
// Tables that were taken over stay where they are, since a sealed file does
// not change. They are of use again when the footer that took them over is
// lost.
const mergeFanout = 4

// tableSize is the order of size of a table of n rows.
func tableSize(n uint32) int { return bits.Len32(n/16) / 2 }

// tableRef is a table that counts: no later one has taken it over.
type tableRef struct {
	from, to uint32
	rows     uint32
}

// noTable stands for a segment whose table is in no footer: nothing is merged
// across it.
const noTable = math.MaxUint32

// toMerge tells how many of the newest tables the next one, of n rows, takes
// over.
func toMerge(tables []tableRef, n uint32) int {
	count := 0
	for {
		rest := tables[:len(tables)-count]
		if len(rest) < mergeFanout-1 {
			return count
		}
		newest := rest[len(rest)-(mergeFanout-1):]
		for _, t := range newest {
			if t.rows == noTable || tableSize(t.rows) > tableSize(n) {
				return count
			}
		}
		for _, t := range newest {
			n += t.rows
		}
		count += len(newest)
	}
}

// rowSource gives rows by run; a row's text is good until the next call.
type rowSource interface {
	next(r *tableRow) (bool, error)
}

// writeMerged writes the table that older ones and that of a segment, which
// follows them, make together.
func writeMerged(w io.Writer, older []*tableReader, own *derived) (tableHead, error) {
	head := tableHead{from: own.seg, to: own.seg, newest: own.newest}
	sources := make([]rowSource, 0, len(older)+1)
	packs, extras := map[uint32]uint32{}, map[extraKey]tableExtra{}
	for _, t := range older {
		head.from = min(head.from, t.from)
		head.newest = max(head.newest, t.newest)
		sources = append(sources, t)
		addPacks(packs, t.packList)
		addExtras(extras, t.extraList)
	}
	sources = append(sources, &derivedRows{d: own})
	addPacks(packs, own.packList())
	addExtras(extras, own.extraList())
	tw := &tableWriter{w: w}
	if err := mergeRows(tw, sources); err != nil {
		return head, err
	}
	err := tw.end(head, sortedPacks(packs), sortedExtras(extras))
	return tw.head, err
}

// mergeRows adds up the rows of sources, of which later ones are newer.
func mergeRows(tw *tableWriter, sources []rowSource) error {
	rows, more := make([]tableRow, len(sources)), make([]bool, len(sources))
	var err error
	for i, s := range sources {
		if more[i], err = s.next(&rows[i]); err != nil {
			return err
		}
	}
	for {
		first := uint32(math.MaxUint32)
		for i := range rows {
			if more[i] {
				first = min(first, rows[i].run)
			}
		}
		if first == math.MaxUint32 {
			return nil
		}
		sum := tableRow{run: first}
		for i := range rows {
			if more[i] && rows[i].run == first {
				sum.add(&rows[i])
			}
		}
		if !sum.gone {
			if err := tw.add(&sum); err != nil {
				return err
			}
		}
		for i, s := range sources {
			if more[i] && rows[i].run == first {
				if more[i], err = s.next(&rows[i]); err != nil {
					return err
				}
			}
		}
	}
}

func addPacks(packs map[uint32]uint32, list []tablePack) {
	for _, p := range list {
		packs[p.pack] = max(packs[p.pack], p.end)
	}
}

func sortedPacks(packs map[uint32]uint32) []tablePack {
	list := make([]tablePack, 0, len(packs))
	for p, end := range packs {
		list = append(list, tablePack{p, end})
	}
	slices.SortFunc(list, func(a, b tablePack) int { return compareUint32(a.pack, b.pack) })
	return list
}

// addExtras adds newer extras to those that are there. An outbox that was done
// goes with the one that it ended, and so does a delivery.
func addExtras(extras map[extraKey]tableExtra, list []tableExtra) {
	for _, e := range list {
		outbox, done := extraKey{run: e.run, kind: extraOutbox}, extraKey{run: e.run, kind: extraOutboxDone}
		switch e.kind {
		case extraLate, extraDeleted:
			old := extras[e.key()]
			e.rows, e.bytes = e.rows+old.rows, e.bytes+old.bytes
		case extraOutbox:
			delete(extras, done)
		case extraOutboxDone:
			if _, ok := extras[outbox]; ok {
				delete(extras, outbox)
				continue
			}
		case extraDelivery, extraDelivered:
			there := extraKey{e.run, extraDelivery, e.sink}
			if e = extras[there].and(e); e.kind != extraDelivery {
				delete(extras, there)
			}
			if e.kind == 0 {
				continue
			}
		}
		extras[e.key()] = e
	}
}

func sortedExtras(extras map[extraKey]tableExtra) []tableExtra {
	list := make([]tableExtra, 0, len(extras))
	for _, e := range extras {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b tableExtra) int {
		if a.key().before(b.key()) {
			return -1
		}
		return 1
	})
	return list
}

func compareUint32(a, b uint32) int { return int(int64(a) - int64(b)) }

// older are tables that a later one takes over, and what is told of threads
// beside them.
type older struct {
	tables  []*tableReader
	threads []io.Reader
}

// openOlder opens the tables in the footers that refs tell of.
func (s *Store) openOlder(refs []tableRef) (o older, err error) {
	for _, ref := range refs {
		sections, ok := s.sectionsOf(ref.to)
		t, err := tableOf(sections, ok)
		if err != nil {
			return o, err
		}
		threads, err := threadsOf(sections)
		if err != nil {
			return o, err
		}
		o.tables, o.threads = append(o.tables, t), append(o.threads, threads)
	}
	return o, nil
}

// tableOf opens the table of a footer.
func tableOf(sections wal.Sections, ok bool) (*tableReader, error) {
	if !ok {
		return nil, badTable("there is no footer")
	}
	r, ok := sections.Section(sectionTable)
	if !ok {
		return nil, badTable("the footer has none")
	}
	return openTable(r, r.Size())
}
