package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"durafs/cmd/durafs/internal/child"
	"durafs/cmd/durafs/internal/output"
	"durafs/control"
	"durafs/internal/term"
)

// facts is what is known of a command, and the final answer of its run.
type facts struct {
	Argv      []string          `json:"argv"`
	Dir       string            `json:"cwd"`
	Env       map[string]string `json:"env,omitempty"`
	ExitCode  *int              `json:"exit_code,omitempty"`
	Signal    string            `json:"signal,omitempty"`
	Error     string            `json:"error,omitempty"` // why it could not be started
	StartedAt time.Time         `json:"started_at"`
	EndedAt   time.Time         `json:"ended_at"`
	output.Totals

	exit   child.Exit
	killed bool // since the run was cancelled, and SIGTERM was of no use
}

func newFacts(a *app, o ExecOptions, argv []string) facts {
	f := facts{Argv: argv, StartedAt: a.clock.Now()}
	f.Dir, _ = os.Getwd() // "" where it was removed under us
	for _, name := range o.KeepEnv {
		if value, ok := os.LookupEnv(name); ok {
			if f.Env == nil {
				f.Env = map[string]string{}
			}
			f.Env[name] = value
		}
	}
	return f
}

// execRequest is what whoever resumes the run needs to start the command again.
// It is private to the store.
type execRequest struct {
	Type   string            `json:"type"` // execRequestType
	Argv   []string          `json:"argv"`
	Dir    string            `json:"cwd"`
	Env    map[string]string `json:"env,omitempty"`
	Safety string            `json:"safety"`
}

// execRequestType tells the resume requests of exec from those of others.
const execRequestType = "durafs-exec/1"

func (f *facts) resumeRequest(safety string) ([]byte, error) {
	return json.Marshal(execRequest{execRequestType, f.Argv, f.Dir, f.Env, safety})
}

// The command is a call of its run: the first one.
const (
	commandCallID   = "command"
	commandToolName = "exec"
	// argsBytesMax bounds what a claim has of the arguments.
	argsBytesMax = 64 << 10
)

// call is the command as a call of its run.
func (f *facts) call() control.ToolCall {
	c := control.ToolCall{ID: commandCallID, Name: commandToolName}
	args, err := json.Marshal(struct {
		Argv []string `json:"argv"`
		Dir  string   `json:"cwd"`
	}{f.Argv, f.Dir})
	if err == nil && len(args) <= argsBytesMax {
		c.Args = json.RawMessage(args)
	}
	return c
}

// commandOutcome is what became of the command, as the outcome of its call.
type commandOutcome struct {
	Status   string `json:"status"` // ok or error
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	Error    string `json:"error,omitempty"`
	Summary  string `json:"summary"`
}

// ending is all that the store is told of how the command ended.
func (f *facts) ending() ending {
	o := commandOutcome{Status: "ok", ExitCode: f.ExitCode, Signal: f.Signal, Error: f.Error, Summary: f.summary()}
	if f.exit.Status() != 0 {
		o.Status = "error"
	}
	e := ending{settle: f.settlement(), abort: control.AbortExited}
	if f.killed {
		e.abort = control.AbortKilled
	}
	e.outcome, _ = json.Marshal(o) // strings and numbers only
	e.shown, _ = control.Candidate(o.Status, control.Text(o.Summary))
	return e
}

func (f *facts) ended(at time.Time, exit child.Exit) {
	f.EndedAt, f.exit = at, exit
	if exit.Signal != 0 {
		f.Signal = unix.SignalName(exit.Signal)
		return
	}
	f.ExitCode = &exit.Code
}

// settlement is how the run ends.
func (f *facts) settlement() control.SettleRequest {
	status := control.Success
	if f.exit.Status() != 0 {
		status = control.Failure
	}
	r := control.SettleRequest{Status: status, Summary: f.summary()}
	answer, err := json.Marshal(f)
	if err == nil && len(answer) <= inlineAnswerBytesMax {
		r.Payload = &control.TerminalPayload{Bytes: append(answer, '\n'), ContentType: control.TypeJSON}
	}
	return r
}

// inlineAnswerBytesMax bounds what travels inside of a settlement; an argv can
// be 2 MiB long, a request 1 MiB.
const inlineAnswerBytesMax = 512 << 10

func (f *facts) summary() string {
	how := fmt.Sprintf("exit %d", f.exit.Code)
	switch {
	case f.Error != "":
		how = "not started: " + f.Error
	case f.Signal != "":
		how = "ended by " + f.Signal
	}
	return fmt.Sprintf("%s after %s, %s", how, term.Lasted(f.EndedAt.Sub(f.StartedAt)), term.Count(f.Rows, "row"))
}

// print tells a program how it went.
func (f *facts) print(w io.Writer, id string, delivered bool) {
	b, err := json.Marshal(struct {
		Run       string `json:"run"`
		Delivered bool   `json:"delivered"`
		*facts
	}{id, delivered, f})
	if err == nil {
		w.Write(append(b, '\n'))
	}
}

// commandText is a command line as a shell would take it.
func commandText(argv []string) string {
	var words []string
	for _, arg := range argv {
		if arg == "" || strings.ContainsFunc(arg, needsQuotes) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

func needsQuotes(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./=:,@%+", r) && r < 0x80
}
