package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"durafs/wal"
)

// Bounds of a run's file of late writes.
const (
	LateRowsMax     = 1000
	LateRowBytesMax = 4 << 10 // of a rendered line
	lateBatchRows   = 16      // in one batch: reading one line reads its batch
)

// A line of the file is the entry's object with its time put first.
//
//	{"what":"row","code":"stale-writer",…} → {"time":"2026-…Z","what":"row",…}
const lateHead = `{"time":"",`

func appendLateLine(dst, text []byte, at int64) []byte {
	dst = append(dst, `{"time":"`...)
	dst = time.Unix(0, at).UTC().AppendFormat(dst, timeForm)
	dst = append(dst, `",`...)
	dst = append(dst, text[1:]...)
	return append(dst, '\n')
}

func lateLineBytes(text []byte) int {
	return len(lateHead) + len(timeForm) + len(text) - 1 + len("\n")
}

// lateWrite is what is kept of a write that came too late.
type lateWrite struct {
	What  string `json:"what"` // row, payload, claim, again, outcome, settle
	Code  Code   `json:"code"`
	Epoch uint64 `json:"epoch"` // of the token that came with it
	Name  string `json:"name,omitempty"`
	Bytes int    `json:"bytes,omitempty"` // of the text, where it was cut
	Text  string `json:"text,omitempty"`
}

// encode cuts the text until the line keeps its bound.
func (w lateWrite) encode() []byte {
	full := validText(w.Text)
	for n := min(len(full), LateRowBytesMax); ; n = n * 3 / 4 {
		if w.Text = cutText(full, n); len(w.Text) < len(full) {
			w.Bytes = len(full)
		}
		text, err := json.Marshal(w)
		if err != nil {
			panic("runs: a late write that has no JSON: " + err.Error())
		}
		if lateLineBytes(text) <= LateRowBytesMax {
			return text
		}
	}
}

func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// lateRows keeps rows that came too late, and returns refusal.
func (s *Store) lateRows(ctx context.Context, num uint32, epoch uint64, rows []Row, refusal error) error {
	if !isLate(refusal) {
		return refusal
	}
	writes := make([]lateWrite, min(len(rows), LateRowsMax))
	for i := range writes {
		writes[i] = lateWrite{What: "row", Text: string(rows[i].JSON[:min(len(rows[i].JSON), LateRowBytesMax)])}
		if len(rows[i].JSON) > LateRowBytesMax {
			writes[i].Bytes = len(rows[i].JSON)
		}
	}
	return s.keepLate(ctx, num, epoch, refusal, writes...)
}

// isLate reports whether what was refused is to be kept.
func isLate(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.late
}

// keepLate keeps writes that came too late, of a stale writer or in a phase
// that keeps them: evidence is not lost, state is not touched. It returns the
// refusal, also when they could not be kept.
func (s *Store) keepLate(ctx context.Context, num uint32, epoch uint64, refusal error, writes ...lateWrite) error {
	if !isLate(refusal) {
		return refusal
	}
	code := CodeOf(refusal)
	entries := make([]entry, len(writes))
	for i, w := range writes {
		w.Code, w.Epoch = code, epoch
		entries[i] = entry{kind: kindLate, run: num, body: w.encode()}
	}
	for len(entries) > 0 {
		n := min(len(entries), lateBatchRows)
		if err := s.writeLate(ctx, num, entries[:n]); err != nil {
			s.logger.Warn("a late write was not kept", "run", num, "error", err)
			return refusal
		}
		entries = entries[n:]
	}
	return refusal
}

func (s *Store) writeLate(ctx context.Context, num uint32, entries []entry) error {
	room := 0
	return retry(ctx, func() (bool, error) {
		s.mu.RLock()
		l := s.view(num)
		if room = 0; !l.gone() {
			room = LateRowsMax - l.lateRows
		}
		s.mu.RUnlock()
		if room <= 0 {
			return true, nil
		}
		some := entries[:min(len(entries), room)]
		b := newBatch(num, some...)
		done := true
		err := s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision {
			l := s.view(num)
			if l.gone() || l.lateRows+len(some) > LateRowsMax {
				done = false
				return wal.Decision{}
			}
			return s.accept(l, lsn, b)
		})
		return done, err
	})
}

// ReadLateAt reads the run's file of late writes, as ReadLogAt reads its log.
func (s *Store) ReadLateAt(ref Ref, p []byte, off int64) (int, error) {
	rows, total, err := s.lateSpan(uint32(ref), off, int64(len(p)))
	if err != nil {
		return 0, err
	}
	n := 0
	var read lateReader
	for _, r := range rows {
		line, err := read.line(s, r.at)
		if err != nil {
			s.foundDamage(uint32(ref), err)
			return n, err
		}
		n += copy(p[n:], line[max(0, off+int64(n)-r.off):])
	}
	if off+int64(n) >= total && n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// lateSpan is the rows that hold some of n bytes from off on.
func (s *Store) lateSpan(num uint32, off, n int64) ([]lateRow, int64, error) {
	s.mu.RLock()
	c, i := s.index.at(num)
	known, tail, all := c.phase[i] != PhaseNone, c.tail[i], s.index.late[num].bytes
	var recent []lateRow
	if r := s.index.recent[num]; r != nil {
		recent = slices.Clone(r.late)
	}
	s.mu.RUnlock()
	if !known {
		return nil, 0, unknownRef(Ref(num))
	}
	if off < 0 {
		return nil, 0, fmt.Errorf("runs: negative offset %d", off)
	}
	if off >= all {
		return nil, 0, nil
	}
	sealed, err := s.sealed(num, tail)
	if err != nil {
		return nil, 0, err
	}
	rows := append(slices.Clip(sealed.late), recent...)
	from := sort.Search(len(rows), func(i int) bool { return rows[i].off > off }) - 1
	to := sort.Search(len(rows), func(i int) bool { return rows[i].off >= off+n })
	return rows[from:max(from, to)], all, nil
}

// lateReader keeps the batch of the line before, in which the next one often
// is too.
type lateReader struct {
	batch *batch
	at    place
}

func (r *lateReader) line(s *Store, at place) ([]byte, error) {
	if r.batch == nil || r.at.pos() != at.pos() {
		b, err := s.readBatch(at.pos())
		if err != nil {
			return nil, err
		}
		r.batch, r.at = b, at
	}
	if int(at.entry) >= len(r.batch.entries) || r.batch.entries[at.entry].kind != kindLate {
		return nil, badBatch("it has no late write where the index says")
	}
	return appendLateLine(nil, r.batch.entries[at.entry].body, r.batch.stamp.at), nil
}
