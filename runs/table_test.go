package runs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// writeTable is the bytes of a table.
func writeTable(t testing.TB, h tableHead, rows []tableRow, packs []tablePack, extras []tableExtra) []byte {
	var b bytes.Buffer
	w := &tableWriter{w: &b}
	for i := range rows {
		if err := w.add(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(h, packs, extras); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readTable is its inverse.
func readTable(b []byte) (h tableHead, rows []tableRow, packs []tablePack, extras []tableExtra, err error) {
	t, err := openTable(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return h, nil, nil, nil, err
	}
	for {
		var r tableRow
		more, err := t.next(&r)
		if err != nil || !more {
			return t.tableHead, rows, t.packList, t.extraList, err
		}
		r.text = append([]byte(nil), r.text...)
		rows = append(rows, r)
	}
}

func drawRow(t *rapid.T, run uint32, mayAdmit bool) tableRow {
	n := func(name string) uint32 { return rapid.Uint32().Draw(t, name) }
	r := tableRow{
		run: run, lastSeq: n("seq"), bytes: uint64(n("bytes")), payloads: n("payloads"), tail: rapid.Uint32Range(0, 9).Draw(t, "tail"),
		changed: int64(n("changed")), heartbeat: int64(n("heartbeat")), flags: runFlags(rapid.IntRange(0, 7).Draw(t, "flags")),
		otherBytes: rapid.Int64Range(-1<<40, 1<<40).Draw(t, "other bytes"),
	}
	if rapid.Bool().Draw(t, "record") {
		r.revision, r.epoch, r.uid, r.phase = 1+n("revision")/2, n("epoch"), n("uid"), Phase(rapid.IntRange(1, phaseCount-1).Draw(t, "phase"))
		r.record = place{n("segment"), n("offset"), n("entry")}
	}
	if mayAdmit && rapid.Bool().Draw(t, "admitted") {
		r.admission, r.started = 1+uint64(n("admission")), int64(n("started"))
		if rapid.Bool().Draw(t, "keyed") {
			r.flags |= flagKeyed
			r.text = bytes.Repeat([]byte{byte(run)}, 16)
		}
		r.text = append(r.text, encodeText(fmt.Sprintf("exec_%d", run), "", Labels{"thread": "T", "x": fmt.Sprint(run)})...)
	}
	return r
}

// TestTableRoundTrip: a table of any rows, more than a block of them, is read
// as it was written.
func TestTableRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []tableRow
		run := uint32(0)
		for range rapid.SampledFrom([]int{0, 1, 5, tableBlockRows, tableBlockRows + 1, 2*tableBlockRows + 3}).Draw(t, "rows") {
			run += 1 + uint32(len(rows)%3)
			if len(rows) < 5 {
				rows = append(rows, drawRow(t, run, true))
			} else {
				r := rows[len(rows)%5]
				r.run = run
				rows = append(rows, r)
			}
		}
		h := tableHead{from: 3, to: 9, newest: run}
		packs := []tablePack{{1, 5}, {4, 9}}
		extras := []tableExtra{
			{run: 1, kind: extraOutbox, at: place{1, 2, 3}},
			{run: 1, kind: extraLate, rows: 4, bytes: 5},
			{run: 2, kind: extraOutboxDone},
			{run: 2, kind: extraDelivery, flags: extraParked, sink: 7, at: place{1, 2, 3}},
			{run: 2, kind: extraDelivery, flags: extraBorn, sink: 8, at: place{1, 2, 4}},
			{run: 2, kind: extraDelivered, sink: 9},
		}
		b := writeTable(nil, h, rows, packs, extras)
		got, gotRows, gotPacks, gotExtras, err := readTable(b)
		if err != nil {
			t.Fatal(err)
		}
		if got.from != 3 || got.to != 9 || int(got.rows) != len(rows) {
			t.Fatalf("the head is %+v", got)
		}
		all := cmp.AllowUnexported(tableRow{}, place{}, tablePack{}, tableExtra{})
		for _, d := range []string{cmp.Diff(rows, gotRows, all), cmp.Diff(packs, gotPacks, all), cmp.Diff(extras, gotExtras, all)} {
			if d != "" {
				t.Fatal(d)
			}
		}
	})
}

// TestTableBytes: the sizes that the documentation tells.
func TestTableBytes(t *testing.T) {
	r := tableRow{run: 1, text: encodeText(sampleID(1), "", nil), admission: 1}
	if n := len(r.append(nil)); n != tableRowBytes {
		t.Errorf("a row has %d bytes", n)
	}
	b := writeTable(t, tableHead{from: 1, to: 1, newest: 1}, []tableRow{r}, []tablePack{{1, 1}}, []tableExtra{{run: 1, kind: extraLate}})
	if want := 92 + 19 + 8 + 28 + 64; len(b) != want {
		t.Errorf("a table of one run has %d bytes, not %d", len(b), want)
	}
}

// TestMerge: tables that are merged make of an index what they make one after
// the other.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := map[uint32]tableRow{}
		var sources []rowSource
		for range rapid.IntRange(1, mergeFanout).Draw(t, "tables") {
			var rows []tableRow
			for run := uint32(1); run < 30; run++ {
				if rapid.Bool().Draw(t, "there") {
					_, there := sum[run]
					r := drawRow(t, run, !there)
					rows = append(rows, r)
					s := sum[run]
					s.run = run
					s.add(&r)
					sum[run] = s
				}
			}
			b := writeTable(nil, tableHead{from: 1, to: 9, newest: 30}, rows, nil, nil)
			r, err := openTable(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, r)
		}
		var out bytes.Buffer
		w := &tableWriter{w: &out}
		if err := mergeRows(w, sources); err != nil {
			t.Fatal(err)
		}
		if err := w.end(tableHead{from: 1, to: 9, newest: 30}, nil, nil); err != nil {
			t.Fatal(err)
		}
		_, rows, _, _, err := readTable(out.Bytes())
		if err != nil || len(rows) != len(sum) {
			t.Fatal(len(rows), len(sum), err)
		}
		for _, r := range rows {
			if d := cmp.Diff(sum[r.run], r, cmp.AllowUnexported(tableRow{}, place{})); d != "" {
				t.Fatal(d)
			}
		}
	})
}

// TestMergedTablesAreFew: after many segments there are few tables, and each
// run was written few times.
func TestMergedTablesAreFew(t *testing.T) {
	for name, rows := range map[string]func(n int) uint32{
		"new runs":     func(int) uint32 { return 8000 },
		"the same":     func(int) uint32 { return 100_000 },
		"of all sizes": func(n int) uint32 { return uint32(10 + n*7919%50_000) },
		"small ones":   func(int) uint32 { return 3 },
	} {
		var tables []tableRef
		written, own := 0, 0
		const segments = 2000
		for n := range segments {
			r := rows(n)
			k := toMerge(tables, r)
			own += int(r)
			for _, t := range tables[len(tables)-k:] {
				if r += t.rows; name == "the same" {
					r = 100_000
				}
			}
			tables = append(tables[:len(tables)-k], tableRef{rows: r})
			written += int(r)
			if len(tables) > 30 {
				t.Fatalf("%s: after %d segments there are %d tables", name, n+1, len(tables))
			}
		}
		if written > 7*own {
			t.Errorf("%s: each row is written %.1f times", name, float64(written)/float64(own))
		}
	}
}

// FuzzTable: what parses as a table is written as the same bytes, and what it
// makes of an index can be read.
func FuzzTable(f *testing.F) {
	rows := []tableRow{{run: 1, admission: 1, text: encodeText("exec_a", "", Labels{"thread": "T"})}, {run: 2, lastSeq: 5, revision: 2, phase: Terminal}}
	f.Add(writeTable(f, tableHead{from: 1, to: 2, newest: 2}, rows, []tablePack{{1, 5}}, []tableExtra{{run: 1, kind: extraLate, rows: 4, bytes: 5}, {run: 1, kind: extraDelivery, flags: extraBorn, sink: 7, at: place{1, 2, 3}}, {run: 1, kind: extraDelivered, sink: 8}}))
	f.Add(writeTable(f, tableHead{from: 1, to: 1}, nil, nil, nil))
	f.Add(writeTable(f, tableHead{from: 1, to: 1, newest: 1}, []tableRow{{run: 1, flags: flagRemoved | flagKeyed, text: make([]byte, 16)}}, nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, rows, packs, extras, err := readTable(b)
		if err != nil {
			return
		}
		if got := writeTable(t, h, rows, packs, extras); !bytes.Equal(got, b) {
			t.Fatalf("a table of %d rows is written as other bytes", len(rows))
		}
		s := New(Options{})
		r, err := openTable(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if s.loadTable(r) != nil {
			return
		}
		s.endRestore()
		for num := range s.index.newest + 1 {
			if s.index.phase(num) != PhaseNone {
				s.index.run(num)
				s.index.labels(num, func(_, _ []byte) bool { return true })
				s.index.parent(num)
			}
		}
	})
}

// FuzzParts: what parses as parts is written as the same bytes.
func FuzzParts(f *testing.F) {
	d := newDerived(3, newWhole())
	d.runs[5] = &derivedRun{
		part: part{prev: 1, firstSeq: 4, rows: 2, bytes: 100, lateRows: 1, lateBytes: 30, keyed: true}, extents: []extent{{3, 4096, 4, 0, 0}, {3, 8192, 5, 50, 0}},
		marks: []mark{{kind: kindAdmission, offset: 1}, {kind: kindPayload, name: hash16{1}}, {kind: kindLate, off: 7}},
	}
	d.runs[9] = &derivedRun{part: part{firstSeq: 1, rows: 1}, extents: []extent{{3, 9000, 1, 0, 0}}}
	m := new(memSections)
	m.Begin(sectionParts)
	if err := d.writeParts(m); err != nil {
		f.Fatal(err)
	}
	f.Add(m.bytes[sectionParts])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := openParts(io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))), 3)
		if err != nil {
			return
		}
		out := bytes.Clone(b[:partsHeadBytes])
		var parts, extents, marks []byte
		for i := range int(r.parts) {
			p, err := parsePart(b[partsHeadBytes+i*partBytes:])
			if err != nil {
				return
			}
			run := binary.LittleEndian.Uint32(b[partsHeadBytes+i*partBytes:])
			parts = p.append(parts, run)
			if found, ok, err := r.find(run); err == nil && ok {
				if _, err := r.extentsOf(&found); err == nil {
					r.marksOf(&found)
				}
			}
		}
		at := partsHeadBytes + len(parts)
		extents = append(extents, b[at:at+int(r.extents)*extentPartBytes]...)
		for i := range int(r.marks) {
			mk, err := parseMark(b[at+len(extents)+i*markBytes:])
			if err != nil {
				return
			}
			marks = mk.append(marks)
		}
		if out = append(append(append(out, parts...), extents...), marks...); !bytes.Equal(out, b) {
			t.Fatal("parts are written as other bytes")
		}
	})
}

// FuzzWhole: the same for what is of the whole store.
func FuzzWhole(f *testing.F) {
	w := newWhole()
	w.settings = &settings{scopes: map[string]Grant{"a": {"a", 7}}, classes: map[string]Safety{"t": Mutating}}
	j := &journal{version: 9}
	j.add(journalPlace{at: place{1, 2, 3}, lsn: 7, bytes: 10})
	j.add(journalPlace{at: place{1, 2, 4}, lsn: 8, bytes: 11, once: true, strayed: true})
	j.dropped = []journalPlace{{lsn: 1}}
	w.journals[targetMaster] = j
	f.Add(w.encode(3))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := decodeWhole(b, 3)
		if err == nil && !bytes.Equal(w.encode(3), b) {
			t.Fatal("it is written as other bytes")
		}
		c := w.clone()
		if err == nil && !bytes.Equal(c.encode(3), b) {
			t.Fatal("a clone is another")
		}
	})
}

// FuzzThreads: what parses as changes of threads is written as the same bytes.
func FuzzThreads(f *testing.F) {
	var seed []byte
	for _, v := range []threadEvent{
		{message: message{at: place{1, 2, 3}, lsn: 4, run: 5, bytes: 6, once: true, answer: true}, name: "T"},
		{message: message{at: place{1, 2, 3}, lsn: 4, bytes: 6}, name: "T", keyed: true, key: hash16{1}, body: hash16{2}},
		{message: message{lsn: 4, run: 5}, name: "T", removed: true},
	} {
		seed = v.append(seed)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var out []byte
		x := newIndex()
		for in := bytes.NewReader(b); ; {
			v, err := readThreadEvent(in)
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
			out = v.append(out)
			if v.run < 1<<20 {
				x.changeThread(&v)
			}
		}
		if !bytes.Equal(out, b) {
			t.Fatal("they are written as other bytes")
		}
	})
}

// TestKeys: each key that was written is found, and hardly another passes the
// filter.
func TestKeys(t *testing.T) {
	for _, n := range []int{1, 23, 24, 25, 5000} {
		d := newDerived(3, newWhole())
		for i := range n {
			d.keys = append(d.keys, keyPart{hashOf(1, []byte("row"), fmt.Append(nil, i)), hashOf(2, nil, fmt.Append(nil, i)), uint32(i)})
		}
		d.end(func(uint32) uint32 { return 0 })
		m := new(memSections)
		if err := d.writeKeys(m); err != nil {
			t.Fatal(err)
		}
		k, err := openKeys(m, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			row, ok, err := k.find(hashOf(1, []byte("row"), fmt.Append(nil, i)))
			if err != nil || !ok || row.seq != uint32(i) || row.body != hashOf(2, nil, fmt.Append(nil, i)) {
				t.Fatalf("key %d of %d: %+v, %v, %v", i, n, row, ok, err)
			}
		}
		passed := 0
		for i := range 5000 {
			other := hashOf(1, []byte("other"), fmt.Append(nil, i))
			if maybe, err := k.maybe(other); err != nil {
				t.Fatal(err)
			} else if maybe {
				passed++
			}
			if _, ok, err := k.find(other); ok || err != nil {
				t.Fatalf("a key that was never written is found (%v)", err)
			}
		}
		if passed > 150 {
			t.Errorf("of 5000 keys that are not among %d, %d pass the filter", n, passed)
		}
	}
}

// millionRows is the table of a store of n finished runs.
func millionTable(tb testing.TB, n int) []byte {
	var b bytes.Buffer
	w := &tableWriter{w: &b}
	for i := 1; i <= n; i++ {
		r := tableRow{
			run: uint32(i), lastSeq: 12, bytes: 5000, payloads: 1, revision: 3, epoch: 1, uid: 1000, record: place{uint32(i / 10_000), uint32(i * 64), 2},
			admission: uint64(i) * 12, started: int64(i), changed: int64(i), heartbeat: int64(i), tail: uint32(i/10_000) + 1, phase: Terminal,
			text: encodeText(sampleID(i), "", Labels{"thread": fmt.Sprint("T", i/20)}),
		}
		if err := w.add(&r); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.end(tableHead{from: 1, to: uint32(n), newest: uint32(n)}, nil, nil); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// BenchmarkLoadMillion loads the table of a million runs from memory.
func BenchmarkLoadMillion(b *testing.B) {
	const runs = 1_000_000
	table := millionTable(b, runs)
	b.SetBytes(int64(len(table)))
	for b.Loop() {
		before := heap()
		s := New(Options{})
		t, err := openTable(bytes.NewReader(table), int64(len(table)))
		if err != nil {
			b.Fatal(err)
		}
		if err := s.loadTable(t); err != nil {
			b.Fatal(err)
		}
		s.endRestore()
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/runs, "bytes/run")
		runtime.KeepAlive(s)
		b.StartTimer()
	}
}
