package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// pair is one round: the thing and its floor, in the same unit.
type pair struct{ value, floor float64 }

// row makes a table line of the rounds.
func row(name, unit string, goal float64, atMost bool, pairs []pair) Row {
	var values, floors, ratios []float64
	for _, p := range pairs {
		values = append(values, p.value)
		floors = append(floors, p.floor)
		ratios = append(ratios, p.value/p.floor)
	}
	r := Row{
		Name: name, Unit: unit, Goal: goal, AtMost: atMost, Rounds: len(pairs),
		Value: median(values), Floor: median(floors), Ratio: median(ratios),
		Low: slices.Min(ratios), High: slices.Max(ratios),
	}
	r.Met = r.Ratio >= goal
	if atMost {
		r.Met = r.Ratio <= goal
	}
	return r
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// p50 is the median of latencies, in microseconds.
func p50(d []time.Duration) float64 {
	d = slices.Sorted(slices.Values(d))
	return float64(d[len(d)/2]) / float64(time.Microsecond)
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 8, 2, ' ', 0) }

func amount(v float64, unit string) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}

// inScratch calls fn with a new directory in dir, and removes it.
func inScratch(dir string, fn func(string) ([]Row, error)) ([]Row, error) {
	tmp, err := os.MkdirTemp(dir, "durafs-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	return fn(tmp)
}
