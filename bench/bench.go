// Package bench measures the store against what the hardware allows.
//
// # The idea
//
// Machines are noisy, so no figure here is a time: every figure is the ratio
// of two things measured in turn, A B A B …, in one run on one machine, and
// what is told is the median over the rounds with its spread. The other thing
// is a floor: the system calls alone that the promise cannot do without. A
// goal that is missed is printed as missed.
package bench

import (
	"context"
	"fmt"
	"io"
)

// Row is one measured line of the table.
type Row struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"` // median
	Floor float64 `json:"floor"` // median, same unit
	// Ratio is the median of value/floor over the rounds; Low and High are
	// the smallest and largest.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Goal is what Ratio must reach; AtMost says from which side.
	Goal   float64 `json:"goal"`
	AtMost bool    `json:"at_most"`
	Met    bool    `json:"met"`
	Rounds int     `json:"rounds"`
	// Note says why a row could not be measured; then it is not met.
	Note string `json:"note,omitempty"`
}

// Options of Quick.
type Options struct {
	// Dir is a directory on the disk to measure; a directory is made in it
	// and removed again.
	Dir string
	// OnRow is called with each row when it is done.
	OnRow func(Row)
	// Progress is told what is being measured now; nil: nobody is.
	Progress func(what string)
}

// rounds is how often each pair is measured.
const rounds = 5

// Quick measures the rows that need a floor and no peer, in under 45 s.
func Quick(ctx context.Context, opt Options) ([]Row, error) {
	var all []Row
	for _, part := range []struct {
		what    string
		measure func(context.Context, string) ([]Row, error)
	}{
		{"append in process", measureAppend},
		{"one request per row", measureRequests},
		{"streamed rows", measureStream},
		{"payload in", measurePayloadIn},
		{"payload out", measurePayloadOut},
	} {
		if opt.Progress != nil {
			opt.Progress(part.what)
		}
		rows, err := inScratch(opt.Dir, func(dir string) ([]Row, error) { return part.measure(ctx, dir) })
		if err != nil {
			return all, fmt.Errorf("bench: %s: %w", part.what, err)
		}
		for _, r := range rows {
			if opt.OnRow != nil {
				opt.OnRow(r)
			}
		}
		all = append(all, rows...)
	}
	return all, nil
}

// WriteText writes rows as a table for people.
func WriteText(w io.Writer, rows []Row) error {
	t := newTable(w)
	fmt.Fprintln(t, "what\tvalue\tfloor\tratio\tspread\tgoal\t")
	for _, r := range rows {
		if r.Note != "" {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\t%s\tnot measured: %s\n", r.Name, r.goal(), r.Note)
			continue
		}
		verdict := "met"
		if !r.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%.2f–%.2f\t%s\t%s\n",
			r.Name, amount(r.Value, r.Unit), amount(r.Floor, r.Unit), r.Ratio, r.Low, r.High, r.goal(), verdict)
	}
	return t.Flush()
}

func (r Row) goal() string {
	if r.AtMost {
		return fmt.Sprintf("≤ %.2f", r.Goal)
	}
	return fmt.Sprintf("≥ %.2f", r.Goal)
}
