// Package term is the program's voice: what it prints for people, and how.
//
// # The rules
//
// Results go to standard output, everything else to standard error. Progress
// is drawn only where standard error is a terminal; elsewhere nothing moves
// and every line is plain text that can be kept. An error is one sentence of
// what happened to what, and a second line that says what to do next. Text
// that came from an agent is shown with its control characters made visible,
// since it could otherwise drive the reader's terminal.
package term

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// widthDefault is the width of what has none, or does not tell it.
const widthDefault = 80

// Width is the number of columns of w, 80 where it is no terminal.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return widthDefault
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return widthDefault
	}
	return width
}
