package bench

import (
	"bytes"
	"strings"
	"testing"
)

func TestRow(t *testing.T) {
	pairs := []pair{{2, 1}, {10, 10}, {3, 1}}
	r := row("x", "/s", 1.5, false, pairs)
	if r.Ratio != 2 || r.Low != 1 || r.High != 3 || !r.Met {
		t.Errorf("%+v", r)
	}
	if r := row("x", "/s", 1.5, true, pairs); r.Met {
		t.Errorf("2 is not at most 1.5: %+v", r)
	}
}

func TestWriteTextSaysWhatWasMissed(t *testing.T) {
	var b bytes.Buffer
	err := WriteText(&b, []Row{
		row("fast", "/s", 0.5, false, []pair{{1, 1}}),
		row("slow", "/s", 0.5, false, []pair{{1, 4}}),
		{Name: "none", Goal: 1, Note: "no mount here"},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{"what", "met", "MISSED", "not measured: no mount here"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q in it", i, lines[i], want)
		}
	}
}

// TestQuick runs all of it: it must come to an end, with a finite number or a
// reason in every row. What the numbers are depends on the machine.
func TestQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	rows, err := Quick(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Note == "" && !(r.Ratio > 0) {
			t.Errorf("%+v", r)
		}
	}
	if len(rows) < 12 {
		t.Errorf("only %d rows", len(rows))
	}
}
