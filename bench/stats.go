package bench

import (
	"fmt"
	"io"
	"math"
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
	if atMost && goal > 0 {
		r.Met = r.Ratio <= goal
	}
	return r
}

// bytesText is a number of bytes in the largest unit that divides it.
func bytesText(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if of := int64(1) << (30 - 10*i); n >= of && n%of == 0 {
			return fmt.Sprintf("%d %s", n/of, unit)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// p50 is the median of latencies, in microseconds.
func p50(d []time.Duration) float64 { return quantile(d, 0.50) }

// p99 is the latency that one in a hundred exceeds, in microseconds.
func p99(d []time.Duration) float64 { return quantile(d, 0.99) }

// quantile is the smallest latency that at least the share q of them does not
// exceed, in microseconds.
func quantile(d []time.Duration, q float64) float64 {
	d = slices.Sorted(slices.Values(d))
	at := int(math.Ceil(q*float64(len(d)))) - 1
	return float64(d[max(0, at)]) / float64(time.Microsecond)
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
