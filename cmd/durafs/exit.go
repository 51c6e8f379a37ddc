package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes. docs/cli.md has the same table for users.
const (
	exitOK     = 0
	exitFailed = 1 // refused, not found, damage found: the answer is no
	exitUsage  = 2 // the command line is wrong; verify: could not check
	exitAway   = 3 // no daemon could be reached, or it is not ready
	// exec ends with the code of its command, and with this one when it did
	// not come to starting it. 126 and 127 are child's.
	exitExec = 125
)

const exitCodesHelp = `Exit codes: 0 done; 1 refused, not found, failed, or damage found; 2 wrong
usage, or could not be checked; 3 no daemon reached. exec ends with the code of
its command (128+n for signal n), 125 when it could not begin, 126 and 127 when
the command cannot be run or found.`

// codeError is an error that ends the program with a certain code. Without an
// error in it, nothing is printed: it was said already.
type codeError struct {
	code int
	err  error
	next string // what to do next, "" to find it by the error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// exitWith ends the program with a code, saying nothing more.
func exitWith(code int) error { return &codeError{code: code} }

// failed is an error with a hint of its own.
func failed(err error, next string, args ...any) error {
	return &codeError{code: exitFailed, err: err, next: fmt.Sprintf(next, args...)}
}

// usageError says what is wrong with a command line.
func usageError(cmd *cobra.Command, err error) error {
	return &codeError{code: exitUsage, err: err, next: fmt.Sprintf("see: %s --help", cmd.CommandPath())}
}

// badUsage is usageError for commands that look at their arguments themselves.
func badUsage(cmd *cobra.Command, format string, args ...any) error {
	return usageError(cmd, fmt.Errorf(format, args...))
}

// finish says what went wrong, if something did, and returns the code to exit
// with.
func (a *app) finish(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	code, next := exitFailed, ""
	if e, ok := errors.AsType[*codeError](err); ok {
		code, next = e.code, e.next
		if e.err == nil {
			return code
		}
	} else {
		code = exitCode(err)
	}
	if next == "" {
		next = nextStep(err)
	}
	fmt.Fprintf(a.stderr, "%s: %s\n", cmd.CommandPath(), oneLine(err))
	if next != "" {
		fmt.Fprintf(a.stderr, "  %s\n", next)
	}
	return code
}
