package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/cmd/durafs/internal/output"
	"durafs/control"
	"durafs/internal/term"
)

// LogsOptions says which rows to print, and how.
type LogsOptions struct {
	SocketOption
	Follow bool
	Tail   int
	From   uint64
	Raw    bool
	JSON   bool
}

// AddFlags adds the flags of logs.
func (o *LogsOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.BoolVarP(&o.Follow, "follow", "f", false, "wait for further rows until the run has ended")
	f.IntVar(&o.Tail, "tail", 0, "begin at the last N rows")
	f.Uint64Var(&o.From, "from", 0, "begin at the row with this sequence number")
	f.BoolVar(&o.Raw, "raw", false, "print again, byte for byte, what the command of an exec run printed")
	addJSONFlag(f, &o.JSON, "print the rows as they are stored, one JSON object a line")
}

func newLogsCommand(a *app) *cobra.Command {
	var o LogsOptions
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Print the rows of a run's log",
		Long: `Print the rows of a run's log, each once and in order, also when the daemon is
restarted meanwhile.

A line that a command printed is shown as "stdout| line"; every other row as
its number, its time, its type and its other fields.`,
		GroupID: groupRead,
		Example: "  durafs logs -f RUN\n  durafs logs --json --tail 100 RUN | jq .type",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Tail < 0 {
				return badUsage(cmd, "--tail %d is negative", o.Tail)
			}
			if o.JSON && o.Raw {
				return badUsage(cmd, "--json and --raw exclude each other")
			}
			return runLogs(cmd.Context(), a, o, args[0])
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runLogs(ctx context.Context, a *app, o LogsOptions, id string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := o.client()
	if err != nil {
		return err
	}
	l, err := c.Log(ctx, id, control.LogQuery{From: o.From, Tail: o.Tail, Follow: o.Follow})
	if err != nil {
		return fmt.Errorf("log of run %s: %w", id, err)
	}
	defer l.Close()
	out := bufio.NewWriter(a.stdout)
	show := a.rowPrinter(o, out)
	for {
		line, err := l.Next()
		switch {
		case err == io.EOF, o.Follow && ctx.Err() != nil:
			return out.Flush()
		case err != nil:
			return errors.Join(out.Flush(), fmt.Errorf("log of run %s: %w", id, err))
		}
		if err := show(line); err != nil {
			return err
		}
		// A follower sees each row as it comes.
		if o.Follow {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// rowPrinter returns what prints one row.
func (a *app) rowPrinter(o LogsOptions, out *bufio.Writer) func(line []byte) error {
	switch {
	case o.JSON:
		return func(line []byte) error {
			out.Write(line)
			return out.WriteByte('\n')
		}
	case o.Raw:
		return func(line []byte) error { return a.printRaw(out, line) }
	}
	return func(line []byte) error {
		_, err := fmt.Fprintln(out, rowText(line))
		return err
	}
}

// printRaw prints the bytes that an output row stands for, to the stream that
// they came from.
func (a *app) printRaw(out *bufio.Writer, line []byte) error {
	var r outputRow
	if json.Unmarshal(line, &r) != nil || r.Type != output.TypeOutput {
		return nil
	}
	if r.Stream != "stderr" {
		_, err := out.Write(r.bytes())
		return err
	}
	if err := out.Flush(); err != nil { // keep the order of the two
		return err
	}
	_, err := a.stderr.Write(r.bytes())
	return err
}

// outputRow is a row that exec made of a line.
type outputRow struct {
	Type   string `json:"type"`
	Stream string `json:"stream"`
	Line   string `json:"line"`
	B64    []byte `json:"b64"`
	EOL    *bool  `json:"eol"`
}

func (r *outputRow) bytes() []byte {
	b := append([]byte(r.Line), r.B64...)
	if r.EOL == nil || *r.EOL {
		b = append(b, '\n')
	}
	return b
}

// rowText is a row for people: one line.
func rowText(line []byte) string {
	var r outputRow
	if json.Unmarshal(line, &r) == nil && r.Type == output.TypeOutput {
		text := r.Line + string(r.B64)
		if r.EOL != nil && !*r.EOL {
			text += "…"
		}
		return fmt.Sprintf("%s| %s", term.Safe(r.Stream), term.Safe(text))
	}
	return otherRowText(line)
}

// otherRowText is number, time, type, and the rest of the fields as JSON.
func otherRowText(line []byte) string {
	fields, err := rowFields(line)
	if err != nil {
		return term.Safe(string(line))
	}
	number, gap := gapNumbers(line)
	rest := ""
	for _, f := range fields {
		switch f.name {
		case "seq", "time", "type", "by":
		case "seq_from", "seq_to":
			if !gap {
				rest += " " + f.name + "=" + f.value
			}
		default:
			rest += " " + f.name + "=" + f.value
		}
	}
	var head struct {
		Seq  uint64    `json:"seq"`
		Time time.Time `json:"time"`
		Type string    `json:"type"`
		By   string    `json:"by"`
	}
	json.Unmarshal(line, &head) // a field of another kind stays empty
	who := head.Type
	if head.By != "" {
		who = head.By + ":" + who
	}
	when := "-"
	if !head.Time.IsZero() {
		when = head.Time.Local().Format("15:04:05.000")
	}
	if !gap {
		number = strconv.FormatUint(head.Seq, 10)
	}
	return term.Safe(fmt.Sprintf("#%s %s %s%s", number, when, who, rest))
}

// gapNumbers are the numbers of the rows that a line of the store's own stands
// for, since they cannot be read any more: the last is "?" where nobody can
// tell it.
func gapNumbers(line []byte) (numbers string, ok bool) {
	var gap struct {
		By   string  `json:"by"`
		Type string  `json:"type"`
		Seq  uint64  `json:"seq"`
		From uint64  `json:"seq_from"`
		To   *uint64 `json:"seq_to"`
	}
	if json.Unmarshal(line, &gap) != nil || gap.By != "store" || gap.Type != "damaged" || gap.Seq != 0 || gap.From == 0 {
		return "", false
	}
	switch {
	case gap.To == nil:
		return fmt.Sprintf("%d-?", gap.From), true
	case *gap.To <= gap.From:
		return strconv.FormatUint(gap.From, 10), true
	}
	return fmt.Sprintf("%d-%d", gap.From, *gap.To), true
}

// rowFields are the fields of a row in their order, values as they stand.
func rowFields(line []byte) ([]field, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var fields []field
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		fields = append(fields, field{fmt.Sprint(name), string(value)})
	}
	return fields, nil
}
