package runs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"durafs/wal"
)

// whole is what the index knows of the whole store, of no run: it is small, and
// what an entry makes of it depends on all entries before. So it stands
// completely in the footer of each segment, as its batches leave it.
type whole struct {
	settings *settings
	journals map[string]*journal // by target
}

func newWhole() whole { return whole{settings: new(settings), journals: map[string]*journal{}} }

// clone is a copy whose changes do not show in w.
func (w *whole) clone() whole {
	c := whole{settings: w.settings, journals: make(map[string]*journal, len(w.journals))}
	if c.settings == nil {
		c.settings = new(settings)
	}
	for target, j := range w.journals {
		n := *j
		n.ordinary = journalRows{rows: slices.Clone(j.ordinary.live())}
		n.ends = journalRows{rows: slices.Clone(j.ends.live())}
		n.dropped = slices.Clone(j.dropped)
		c.journals[target] = &n
	}
	return c
}

// The section of the whole store:
//
//	magic     4  "ALL "
//	version   4  0
//	segment   4
//	settings  4  how many
//	journals  4  how many
//	then settings, by set and name: length 4, the entry's JSON
//	then journals, by target: length of the name 4, name, LSN of its last change
//	8, number of ordinary rows 4, of ends 4, of rows that have left 4, and these
//	rows, 28 bytes each: place 12, LSN 8, bytes 4, flags 4 (1 end, 2 strayed)
const (
	// wholeBytesMax bounds what is read of it at once.
	wholeBytesMax = 1 << 30
)

var wholeMagic = [4]byte{'A', 'L', 'L', ' '}

const (
	journalOnce = 1 << iota
	journalStrayed
)

// list is the settings that make x from nothing, in order.
func (x *settings) list() []*setting {
	var all []*setting
	add := func(set, name string, value any) {
		all = append(all, &setting{Set: set, Name: name, Value: mustJSON(value)})
	}
	for name, v := range x.scopes {
		add(setScope, name, v)
	}
	for name, v := range x.targets {
		add(setTarget, name, v)
	}
	for name, v := range x.classes {
		add(setClass, name, v)
	}
	for name, v := range x.policies {
		add(setPolicy, name, v)
	}
	slices.SortFunc(all, func(a, b *setting) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return all
}

func (st *setting) before(o *setting) bool {
	return st.Set < o.Set || st.Set == o.Set && st.Name < o.Name
}

func (w *whole) encode(seg uint32) []byte {
	le := binary.LittleEndian
	said := w.settings.list()
	b := append(wholeMagic[:], 0, 0, 0, 0)
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, seg), uint32(len(said))), uint32(len(w.journals)))
	for _, st := range said {
		text := mustJSON(st)
		b = append(le.AppendUint32(b, uint32(len(text))), text...)
	}
	for _, target := range slices.Sorted(maps.Keys(w.journals)) {
		j := w.journals[target]
		b = append(le.AppendUint32(b, uint32(len(target))), target...)
		b = le.AppendUint64(b, j.version)
		lists := [...][]journalPlace{j.ordinary.live(), j.ends.live(), j.dropped}
		for _, l := range lists {
			b = le.AppendUint32(b, uint32(len(l)))
		}
		for _, l := range lists {
			for i := range l {
				b = l[i].append(b)
			}
		}
	}
	return b
}

func (p *journalPlace) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, p.at.segment), p.at.offset), p.at.entry)
	b = le.AppendUint32(le.AppendUint64(b, p.lsn), p.bytes)
	var flags uint32
	if p.once {
		flags |= journalOnce
	}
	if p.strayed {
		flags |= journalStrayed
	}
	return le.AppendUint32(b, flags)
}

var errWhole = errors.New("runs: what a footer says of the whole store is not well formed")

func badWhole(what string) error { return fmt.Errorf("%w: %s", errWhole, what) }

// readWhole reads the section from a footer.
func readWhole(sections wal.Sections, seg uint32) (whole, error) {
	r, ok := sections.Section(sectionWhole)
	if !ok || r.Size() > wholeBytesMax {
		return whole{}, badWhole("it is not there, or too long")
	}
	b := make([]byte, r.Size())
	if _, err := io.ReadFull(r, b); err != nil {
		return whole{}, err
	}
	return decodeWhole(b, seg)
}

// decodeWhole is the inverse of encode.
func decodeWhole(b []byte, seg uint32) (whole, error) {
	w := newWhole()
	r := reader{b: b}
	if magic := r.take(4); r.bad || [4]byte(magic) != wholeMagic || r.uint32() != 0 || r.uint32() != seg {
		return w, badWhole("its head makes no sense")
	}
	settings, journals := r.uint32(), r.uint32()
	if err := w.decodeSettings(&r, settings); err != nil {
		return w, err
	}
	last := ""
	for i := range journals {
		target, j := decodeJournal(&r)
		if r.bad || i > 0 && target <= last {
			return w, badWhole("a journal of it is not as it should be")
		}
		w.journals[target], last = j, target
	}
	if r.bad || len(r.b) > 0 {
		return w, badWhole("it is too long or too short")
	}
	return w, nil
}

// decodeSettings reads settings. They are put into maps of their own, since
// with for each makes a copy of its set.
func (w *whole) decodeSettings(r *reader, count uint32) error {
	x := &settings{}
	var last *setting
	for range count {
		text := r.take(int(r.uint32()))
		if r.bad {
			return badWhole("a setting is cut short")
		}
		st, err := parseSetting(entry{kind: kindSetting, body: text})
		if err != nil {
			return err
		}
		if string(mustJSON(st)) != string(text) || last != nil && !last.before(st) {
			return badWhole("its settings are not as they should be")
		}
		if last = st; !x.take(st) {
			return badWhole("a setting has no meaning")
		}
	}
	w.settings = x
	return nil
}

// take puts a setting into a set that nobody else has yet.
func (x *settings) take(st *setting) bool {
	switch st.Set {
	case setScope:
		return takeInto(&x.scopes, st)
	case setTarget:
		return takeInto(&x.targets, st)
	case setClass:
		return takeInto(&x.classes, st)
	case setPolicy:
		return takeInto(&x.policies, st)
	}
	return false
}

func takeInto[V any](m *map[string]V, st *setting) bool {
	var v V
	if string(st.Value) == "null" || json.Unmarshal(st.Value, &v) != nil || string(mustJSON(v)) != string(st.Value) {
		return false
	}
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[st.Name] = v
	return true
}

func decodeJournal(r *reader) (target string, j *journal) {
	j = new(journal)
	target = string(r.take(int(r.uint32())))
	j.version = r.uint64()
	counts := [...]uint32{r.uint32(), r.uint32(), r.uint32()}
	lists := [...]*[]journalPlace{&j.ordinary.rows, &j.ends.rows, &j.dropped}
	for i, n := range counts {
		if int(n) > JournalRowsMax {
			r.bad = true
		}
		for range n {
			p := decodeJournalPlace(r)
			if r.bad || i < 2 && p.once != (i == 1) {
				r.bad = true
				return target, j
			}
			*lists[i] = append(*lists[i], p)
			if i < 2 {
				j.bytes += int(p.bytes)
			}
		}
	}
	return target, j
}

func decodeJournalPlace(r *reader) journalPlace {
	p := journalPlace{at: place{r.uint32(), r.uint32(), r.uint32()}, lsn: r.uint64(), bytes: r.uint32()}
	flags := r.uint32()
	p.once, p.strayed = flags&journalOnce != 0, flags&journalStrayed != 0
	r.bad = r.bad || flags > journalOnce|journalStrayed || p.bytes > JournalRowBytesMax
	return p
}
