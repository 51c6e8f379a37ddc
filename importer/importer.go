// Package importer turns the session files that agents keep for themselves into
// rows of a run's log.
//
// # What it reads
//
//   - lines: one JSON object a line, as coding agents write their sessions and
//     as chat-completion datasets keep their dialogues;
//   - a trajectory: one JSON document, over many lines as a rule, with its steps
//     and messages in arrays.
//
// # What it keeps
//
// A line that is one valid JSON object becomes one row, and every byte of it is
// in the row, in order. In front of its fields are put a type, where it has
// none, and a time, where it has a time stamp under another name:
//
//	{"timestamp":1763681581544,"role":"user"}
//	{"type":"message","time":"2025-11-20T23:33:01.544Z","timestamp":1763681581544,"role":"user"}
//
// The names "seq" and "by" are the log's own and become "source_seq" and
// "source_by". In a document each element of its arrays of steps and messages
// is a row, and each other field of its top is one; blanks between their tokens
// are dropped, nothing else is.
//
// # What it cannot read
//
// Real session files have torn lines, two objects on one line, bytes that are
// no text. Nothing of that stops the import. Each such place is told, with its
// line and offset: what could be read all the same, and what was passed over.
// Rows stand in the order of the file; time stamps that go back are counted.
//
// The package reads from an io.Reader and does nothing else, and it holds one
// row at a time: a file may be of any size.
package importer

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Bounds.
const (
	RowBytesMax  = 32 << 20 // of a line or element, and of the row it becomes
	RowDepthMax  = 1000     // of nested arrays and objects
	HeadBytesMax = 64 << 10 // what Detect looks at
	TaskBytesMax = 4 << 10  // of Summary.Task

	nameBytesMax = 4 << 10 // of a field's name at the top of a document
	// b64BytesMax bounds what is kept of a line that is not text. The file
	// itself is kept elsewhere.
	b64BytesMax = 1 << 20
)

// ErrFormat says that the file is none of those the importer reads.
var ErrFormat = errors.New("not a session file: neither lines of JSON objects nor a JSON document")

// Format is a kind of session file.
type Format uint8

const (
	Unknown Format = iota
	// AgentLines: each line is an event of a coding agent.
	AgentLines
	// ChatLines: each line is a message, or a dialogue of several.
	ChatLines
	// Trajectory: the file is one JSON document.
	Trajectory
)

func (f Format) String() string {
	return [...]string{"unknown", "agent-lines", "chat-lines", "trajectory"}[f]
}

// Row is one row. Its JSON belongs to the callee.
type Row struct {
	// JSON is one object on one line, in valid UTF-8. After its "{" the first
	// Added bytes were put in.
	JSON  []byte
	Added int
	// Time is the source's own, zero where it has none.
	Time time.Time
	// Line (from 1) and Offset are where it begins in the file.
	Line   int
	Offset int64
}

// Problem tells of a place in the file that is not as it should be.
type Problem struct {
	Line   int
	Offset int64
	What   string
	// Lost is true where bytes of the file are in no row.
	Lost bool
}

func (p Problem) String() string {
	return fmt.Sprintf("line %d, byte %d: %s", p.Line, p.Offset, p.What)
}

// Summary is what a file came to.
type Summary struct {
	Format Format
	Bytes  int64
	Lines  int
	Rows   int
	// Lost counts the problems that left something out; Fused, Renamed and
	// Binary the rows that were read from a shared line, that had a reserved
	// name, and that hold bytes which are no text.
	Lost, Fused, Renamed, Binary int
	// First and Last are the earliest and the latest time; Backwards counts
	// the rows that are older than the row before, and BackwardsMax is the
	// largest step.
	First, Last  time.Time
	Backwards    int
	BackwardsMax time.Duration
	// Task is what the user asked for first, "" where that cannot be told.
	Task string
}

// Read reads a session file to its end. emit gets each row, problem what is
// wrong, both in the order of the file. Read returns the error of r or of emit,
// or ErrFormat; what is wrong inside the file is no error.
func Read(r io.Reader, emit func(Row) error, problem func(Problem)) (Summary, error) {
	return read(newInput(r), emit, problem)
}

func read(in *input, emit func(Row) error, problem func(Problem)) (Summary, error) {
	head, err := in.r.Peek(HeadBytesMax)
	if err != nil && !errors.Is(err, io.EOF) {
		return Summary{}, err
	}
	imp := &reader{in: in, emit: emit, problem: problem}
	imp.sum.Format = Detect(head)
	switch imp.sum.Format {
	case AgentLines, ChatLines:
		err = imp.lines()
	case Trajectory:
		err = imp.document()
	default:
		err = ErrFormat
	}
	imp.sum.Bytes, imp.sum.Lines = in.offset, in.line
	if in.last == '\n' {
		imp.sum.Lines-- // no line begins at the end
	}
	return imp.sum, err
}

// reader is one call of Read.
type reader struct {
	in      *input
	emit    func(Row) error
	problem func(Problem)
	sum     Summary
	prev    time.Time
	// start is how the first row begins, up to its first name: what a row that
	// follows a torn one on the same line begins with too.
	start []byte
}

// tell reports a place where nothing, or not all, could be read.
func (r *reader) tell(at place, lost bool, format string, args ...any) {
	if lost {
		r.sum.Lost++
	}
	r.problem(Problem{Line: at.line, Offset: at.offset, What: fmt.Sprintf(format, args...), Lost: lost})
}

// put hands a row on and keeps count of it.
func (r *reader) put(row Row) error {
	r.sum.Rows++
	if !row.Time.IsZero() {
		r.clock(row.Time)
	}
	return r.emit(row)
}

func (r *reader) clock(t time.Time) {
	if step := r.prev.Sub(t); !r.prev.IsZero() && step > 0 {
		r.sum.Backwards++
		r.sum.BackwardsMax = max(r.sum.BackwardsMax, step)
	}
	r.prev = t
	if r.sum.First.IsZero() || t.Before(r.sum.First) {
		r.sum.First = t
	}
	if t.After(r.sum.Last) {
		r.sum.Last = t
	}
}
