package runs

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"durafs/cas"
)

// samples are one entry of each kind and form.
func samples() []entry {
	rec := &record{
		revision: 3, epoch: 2, uid: 1000, phase: PausedInterruption, ID: "exec_a", BootID: "b", Class: classNone,
		Labels: Labels{"thread": "T"}, Target: targetMaster, Pause: &PauseInfo{Reason: "restart"},
	}
	adm := &admission{keyed: true, key: hash16{1}, body: hash16{2}, id: "exec_a", parent: "01890a5d-ac96-774b-bcce-b302099a8057", labels: Labels{"a": "1", "b": ""}, target: targetMaster}
	plain := &admission{id: "01890a5d-ac96-774b-bcce-b302099a8057", target: targetMaster}
	inline := &payload{name: "n", contentType: "text/plain", source: numNamed, ref: cas.Ref{ID: cas.ID{1}, Bytes: 2, Inline: []byte("ab")}}
	packed := &payload{name: TerminalName, source: numTerminal, ref: cas.Ref{ID: cas.ID{1}, Bytes: 1 << 20, Hint: cas.Hint{Pack: 1, Offset: 2, End: 3}}}
	return []entry{
		adm.entry(1), plain.entry(2), rec.entry(1), inline.entry(1), packed.entry(1),
		(&row{text: []byte(`{"a":1}`)}).entry(1),
		(&row{flags: rowKeyed, key: hash16{3}, body: hash16{4}, text: []byte(`{}`)}).entry(1),
		ownRow(1, "type", "accepted"),
		{kind: kindBeat, run: 1, body: []byte("note")},
		{kind: kindBeat, run: 1, body: []byte{}},
		{kind: kindLate, run: 1, body: lateWrite{What: "row", Text: "x"}.encode()},
		(&journalEntry{targetMaster, 1, []byte(`{}`)}).entry(onceTerminal, 1),
		(&note{name: "T", json: []byte(`{}`)}).entry(kindThread, 0, 1),
		{kind: kindOutbox, run: 1, body: mustJSON(packet{Status: Success})},
		{kind: kindOutboxDone, run: 1, body: []byte{}},
		(&delivery{sink: "mail", born: true}).entry(1),
		(&delivery{sink: "mail", attempts: 7, parked: true, err: "exit status 1"}).entry(1),
		deliveredEntry(1, sinkIDOf("mail"), false),
		deliveredEntry(1, sinkIDOf("mail"), true),
	}
}

func encodeSample(entries ...entry) []byte {
	s := stamp{at: 1234567890, journal: 7}
	for _, e := range entries {
		if s.find(e.run) < 0 {
			s.runs = append(s.runs, stampRun{run: e.run, ordinal: 2, seq: 9})
		}
	}
	return appendStamp(appendEntries(nil, entries), s)
}

func TestBatchRoundTrip(t *testing.T) {
	want := samples()
	b, err := decodeBatch(encodeSample(want...))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range b.entries {
		w := want[i]
		w.rec = nil
		if !reflect.DeepEqual(e, w) {
			t.Errorf("entry %d: %s", i, cmp.Diff(e, w, cmp.AllowUnexported(entry{}, record{})))
		}
		if err := parseEntry(e); err != nil {
			t.Errorf("entry %d, kind %d: %v", i, e.kind, err)
		}
	}
	if b.stamp.at != 1234567890 || b.stamp.journal != 7 || len(b.stamp.runs) != 2 || b.stamp.runs[1] != (stampRun{2, 2, 9}) {
		t.Errorf("the stamp is %+v", b.stamp)
	}
}

func TestRecordRoundTrip(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	rec := &record{
		revision: 1<<32 - 1, epoch: 7, uid: 1<<32 - 1, phase: Terminal, ID: "exec_x", BootID: "b", LeaseMS: 45000,
		Labels: Labels{"k": "<&>\u2028"}, Preview: "p", Binding: &Binding{Provider: "x", Local: true},
		Terminal: &Outcome{Status: Success, Payload: &PayloadInfo{Name: TerminalName, Bytes: 7, Source: SourceTerminal}},
		Target:   targetMaster, Outcome: "d",
	}
	e := rec.entry(9)
	back, err := parseRecord(e, at)
	if err != nil {
		t.Fatal(err)
	}
	rec.setTimes(at)
	if d := cmp.Diff(rec, back, cmp.AllowUnexported(record{})); d != "" {
		t.Error(d)
	}
	if back.Terminal.At != at || back.Terminal.Payload.At != at {
		t.Error("a zero time is not the batch's")
	}
}

// TestBatchNotWellFormed changes each byte of a good batch's structure.
func TestBatchNotWellFormed(t *testing.T) {
	good := encodeSample(samples()[5])
	tail := len(good) - stampTailBytes
	for name, change := range map[string]func(b []byte) []byte{
		"empty":          func([]byte) []byte { return nil },
		"cut":            func(b []byte) []byte { return b[1:] },
		"version":        func(b []byte) []byte { b[tail+18]++; return b },
		"stamp's zero":   func(b []byte) []byte { b[tail+19]++; return b },
		"no runs":        func(b []byte) []byte { b[tail+16] = 0; return b },
		"too many runs":  func(b []byte) []byte { b[tail+17] = 0xff; return b },
		"kind 0":         func(b []byte) []byte { b[0] = 0; return b },
		"unknown kind":   func(b []byte) []byte { b[0] = byte(kindCount); return b },
		"unknown flag":   func(b []byte) []byte { b[1] |= 0x80; return b },
		"entry's zero":   func(b []byte) []byte { b[3] = 1; return b },
		"huge length":    func(b []byte) []byte { binary.LittleEndian.PutUint32(b[4:], 1<<31); return b },
		"run 0":          func(b []byte) []byte { b[8] = 0; return b },
		"other run":      func(b []byte) []byte { b[8] = 9; return b },
		"stamp only":     func(b []byte) []byte { return b[entryHeaderBytes+7:] },
		"over the bound": func(b []byte) []byte { return append(make([]byte, 1<<20), b...) },
	} {
		if _, err := decodeBatch(change(bytes.Clone(good))); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

// parseEntry parses an entry's body by its kind.
func parseEntry(e entry) (err error) {
	switch e.kind {
	case kindAdmission:
		_, err = parseAdmission(e)
	case kindRecord:
		_, err = parseRecord(e, time.Time{})
	case kindRow:
		_, err = parseRow(e)
	case kindPayload:
		_, err = parsePayload(e)
	case kindJournal, kindThread:
		_, err = parseNote(e)
	case kindDelivery:
		_, err = parseDelivery(e)
	case kindDelivered:
		_, err = parseDelivered(e)
	}
	return err
}

// reencode is the inverse of parseEntry, for kinds whose bodies are not kept
// as they are.
func reencode(e entry) entry {
	switch e.kind {
	case kindAdmission:
		a, _ := parseAdmission(e)
		return a.entry(e.run)
	case kindRow:
		w, _ := parseRow(e)
		return w.entry(e.run)
	case kindPayload:
		p, _ := parsePayload(e)
		return p.entry(e.run)
	case kindJournal, kindThread:
		n, _ := parseNote(e)
		return n.entry(e.kind, e.flags, e.run)
	case kindDelivery:
		d, _ := parseDelivery(e)
		return d.entry(e.run)
	case kindDelivered:
		sink, _ := parseDelivered(e)
		return deliveredEntry(e.run, sink, e.flags == deliveredDropped)
	case kindRecord:
		rec, _ := parseRecord(e, time.Time{})
		again, err := parseRecord(rec.entry(e.run), time.Time{})
		if err != nil || !reflect.DeepEqual(rec, again) {
			panic("a record does not survive writing it again")
		}
	}
	return e
}

// FuzzBatch: what decodes, encodes to the same bytes, as a whole and entry by
// entry; and nothing panics or allocates by a length that was not checked.
func FuzzBatch(f *testing.F) {
	f.Add(encodeSample(samples()...))
	for _, e := range samples() {
		f.Add(encodeSample(e))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := decodeBatch(p)
		if err != nil {
			return
		}
		if again := appendStamp(appendEntries(nil, b.entries), b.stamp); !bytes.Equal(again, p) {
			t.Fatalf("%x encodes to %x", p, again)
		}
		for _, e := range b.entries {
			if parseEntry(e) != nil {
				continue
			}
			r := reencode(e)
			if r.kind != e.kind || r.flags != e.flags || !bytes.Equal(r.body, e.body) {
				t.Fatalf("an entry of kind %d: %x encodes to %x", e.kind, e.body, r.body)
			}
		}
	})
}
