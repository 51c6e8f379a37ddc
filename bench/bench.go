// Package bench measures the store against what the hardware allows.
//
// # The idea
//
// Machines are noisy, so no figure here is a time: every figure is the ratio
// of two things measured in turn, A B A B …, in one run on one machine, and
// what is told is the median over the rounds with its spread. The other thing
// is a floor: the system calls alone that the promise cannot do without. A
// goal that is missed is printed as missed.
//
// # Where to read on
//
// groups.go lists what is measured, in groups; each group is a file, which
// says what its floor is. generate.go makes stores of any size through the
// store's own code, tail.go one that a crash has left. report.go writes all of
// it down with the machine it was measured on.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
)

// Row is one measured line of the table.
type Row struct {
	// Group is the group of measurements that it belongs to.
	Group string  `json:"group"`
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"` // median
	Floor float64 `json:"floor"` // median, in the same unit unless FloorUnit is set
	// FloorUnit is what the floor counts where that is something else.
	FloorUnit string `json:"floor_unit,omitempty"`
	// Ratio is the median of value/floor over the rounds; Low and High are
	// the smallest and largest.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Goal is what Ratio must reach, 0 for none; AtMost says from which side.
	// Without a goal Met is true.
	Goal   float64 `json:"goal"`
	AtMost bool    `json:"at_most"`
	Met    bool    `json:"met"`
	Rounds int     `json:"rounds"`
	// Note says why a row could not be measured; then it is not met.
	Note string `json:"note,omitempty"`
}

// Options of Run.
type Options struct {
	// Quick measures only what takes seconds, and with less of it: all is done
	// in under 45 s. Otherwise it takes minutes, and some 20 GiB of Dir's disk.
	Quick bool
	// Only selects the groups whose names it matches; nil selects all.
	Only *regexp.Regexp
	// Dir is a directory on the disk to measure; a directory is made in it
	// and removed again.
	Dir string
	// Serve is a command, not started, that serves a store with a mount, both
	// of which it may make, until it is told SIGTERM. The reader of a mount
	// and its server must not be one process: the kernel's wake-ups and the
	// collector of one would be measured with the other. Nil: what needs a
	// mount is not measured.
	Serve func(store, mount string) *exec.Cmd
	// OnRow is called with each row when it is done.
	OnRow func(Row)
	// Progress is told what is being measured now; nil: nobody is.
	Progress func(what string)
}

// rounds is how often each pair is measured.
const rounds = 5

// Run measures, and returns the rows in the order of the groups. When it fails
// it returns what was measured until then, too.
func Run(ctx context.Context, opt Options) ([]Row, error) {
	size := full
	if opt.Quick {
		size = quick
	}
	return run(ctx, opt, size)
}

func run(ctx context.Context, opt Options, size sizes) ([]Row, error) {
	if opt.Progress == nil {
		opt.Progress = func(string) {}
	}
	var all []Row
	for _, g := range groups {
		if opt.Quick && !g.quick || opt.Only != nil && !opt.Only.MatchString(g.name) {
			continue
		}
		opt.Progress(g.name)
		rows, err := inScratch(opt.Dir, func(dir string) ([]Row, error) {
			b := &bench{sizes: size, dir: dir, serve: opt.Serve}
			b.progress = func(what string) { opt.Progress(g.name + ": " + what) }
			return g.measure(ctx, b)
		})
		for i := range rows {
			rows[i].Group = g.name
			if opt.OnRow != nil {
				opt.OnRow(rows[i])
			}
		}
		all = append(all, rows...)
		if err != nil {
			return all, fmt.Errorf("bench: %s: %w", g.name, err)
		}
	}
	return all, nil
}

// WriteText writes rows as a table for people.
func WriteText(w io.Writer, rows []Row) error {
	t := newTable(w)
	fmt.Fprintln(t, "what\tvalue\tfloor\tratio\tspread\tgoal\t")
	for _, r := range rows {
		c := r.cells()
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, c.value, c.floor, c.ratio, c.spread, c.goal, c.verdict)
	}
	return t.Flush()
}

// cells is a row as people read it.
type cells struct{ value, floor, ratio, spread, goal, verdict string }

func (r Row) cells() cells {
	const none = "-"
	c := cells{none, none, none, none, none, "not measured: " + r.Note}
	switch {
	case r.Goal == 0:
	case r.AtMost:
		c.goal = fmt.Sprintf("≤ %.2f", r.Goal)
	default:
		c.goal = fmt.Sprintf("≥ %.2f", r.Goal)
	}
	if r.Note != "" {
		return c
	}
	c.value, c.floor = amount(r.Value, r.Unit), amount(r.Floor, cmp.Or(r.FloorUnit, r.Unit))
	c.ratio, c.spread = fmt.Sprintf("%.2f", r.Ratio), fmt.Sprintf("%.2f–%.2f", r.Low, r.High)
	switch {
	case r.Goal == 0:
		c.verdict = ""
	case r.Met:
		c.verdict = "met"
	default:
		c.verdict = "MISSED"
	}
	return c
}
