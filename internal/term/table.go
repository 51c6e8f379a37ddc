package term

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table aligns columns. Its cells are made safe for a terminal.
type Table struct {
	w *tabwriter.Writer
}

// NewTable begins a table on w with its column titles.
func NewTable(w io.Writer, titles ...string) *Table {
	t := &Table{w: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	t.Row(titles...)
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(Safe(c), "\t", " ")
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// Flush writes the table out.
func (t *Table) Flush() error { return t.w.Flush() }
