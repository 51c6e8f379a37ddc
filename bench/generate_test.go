package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"testing"

	"durafs/runs"
	"durafs/store"
)

// A generated store is sound, and holds exactly what was asked for.
func TestGenerate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := GenerateOptions{
		Runs: 60, Rows: 305, RowBytes: 130, GroupRows: 4, Interleave: 7, PayloadBytes: 20_000, Labels: true, Seed: 3,
	}
	made, err := Generate(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Generated{Runs: 60, Rows: 305, RowBytes: 305 * 130, PayloadBytes: 60 * 20_000}); made != want {
		t.Errorf("made %+v, want %+v", made, want)
	}
	sum, err := store.Verify(t.Context(), dir, store.VerifyOptions{Deep: true}, func(f store.Finding) { t.Error(f) })
	if err != nil || sum.Batches == 0 {
		t.Fatalf("verified %+v, %v", sum, err)
	}

	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if n := s.Recovery().Interrupted; n != 0 {
		t.Errorf("%d runs were left running", n)
	}
	if counts := s.Runs().Counts(); len(counts) != 1 || counts["terminal"] != o.Runs {
		t.Errorf("runs: %v, want %d terminal", counts, o.Runs)
	}
	outcomes, rows := map[runs.Status]int{}, 0
	g := &generator{GenerateOptions: o, words: generatedText(o.Seed)}
	for i := range o.Runs {
		rec, n := checkGenerated(t, s.Runs(), g, i)
		outcomes[rec.Terminal.Status]++
		rows += n
	}
	if rows != o.Rows || len(outcomes) != 2 {
		t.Errorf("%d rows and the outcomes %v", rows, outcomes)
	}
}

// checkGenerated compares run i with what a generator of the same seed makes,
// and tells its record and how many rows of its own it has.
func checkGenerated(t *testing.T, s *runs.Store, g *generator, i int) (*runs.Record, int) {
	t.Helper()
	r := newGeneratedRand(g.Seed, i)
	id := generatedID(r)
	rec, _, err := s.Get(runs.Caller{Owner: true}, id)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Labels["thread"] == "" || rec.Terminal.Payload == nil || rec.Terminal.Payload.Bytes != int64(g.PayloadBytes) {
		t.Errorf("run %d: %+v", i, rec)
	}
	ref, ok := s.Lookup(id)
	if !ok {
		t.Fatalf("run %d is not there", i)
	}
	n := 0
	lines := bufio.NewScanner(io.NewSectionReader(logOf{s, ref}, 0, rec.Log.Bytes))
	for lines.Scan() {
		var row struct {
			By   string `json:"by"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.By == "store" {
			continue
		}
		want := g.appendRow(nil, r, n)
		if len(want) != g.RowBytes || !bytes.Contains(want, []byte(row.Text)) || row.Text == "" {
			t.Errorf("run %d, row %d: %s, want %s", i, n, lines.Bytes(), want)
		}
		n++
	}
	if n != g.rowsOf(i) {
		t.Errorf("run %d has %d rows, want %d", i, n, g.rowsOf(i))
	}
	return rec, n
}

type logOf struct {
	s   *runs.Store
	ref runs.Ref
}

func (l logOf) ReadAt(p []byte, off int64) (int, error) { return l.s.ReadLogAt(l.ref, p, off) }

func TestGenerateRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, o := range []GenerateOptions{
		{}, {Runs: 1, Rows: -1}, {Runs: 1, RowBytes: 10}, {Runs: 1, RowBytes: 1 << 20}, {Runs: 1, Interleave: -1},
	} {
		if _, err := Generate(t.Context(), dir, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if _, err := Generate(t.Context(), dir, GenerateOptions{Runs: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := Generate(t.Context(), dir, GenerateOptions{Runs: 1}); err == nil {
		t.Error("a store that was there was filled")
	}
}
