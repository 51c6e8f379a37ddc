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

	exit child.Exit
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

// resumeRequest is what whoever resumes the run needs to start the command
// again. It is private to the store.
func (f *facts) resumeRequest(safety string) ([]byte, error) {
	return json.Marshal(struct {
		Argv   []string          `json:"argv"`
		Dir    string            `json:"cwd"`
		Env    map[string]string `json:"env,omitempty"`
		Safety string            `json:"safety"`
	}{f.Argv, f.Dir, f.Env, safety})
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
