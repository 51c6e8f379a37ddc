package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"durafs/control"
	"durafs/importer"
	"durafs/internal/term"
)

// importing is the import of one file. It reads the file twice: once to know
// what it is and whether it is there already, once to bring in its rows.
type importing struct {
	app      *app
	o        ImportOptions
	client   *control.Client
	result   imported
	task     string
	progress *term.Progress
}

func (i *importing) file(ctx context.Context) error {
	f, err := os.Open(i.result.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return errors.New("no regular file: an import reads it twice, so save what comes from elsewhere in a file first")
	}
	if err := i.survey(f); err != nil {
		return err
	}
	labels, done, err := i.earlier(ctx)
	if err != nil || done {
		return err
	}
	run, err := i.start(ctx, labels)
	if err != nil {
		return err
	}
	defer run.Close()
	i.result.Run = run.ID()
	if err := i.rows(ctx, f, run); err != nil {
		return fmt.Errorf("rows of run %s: %w", run.ID(), err)
	}
	return i.end(ctx, f, run)
}

// survey reads the file once: its bytes' BLAKE3, what it holds, and what of it
// cannot be read.
func (i *importing) survey(f *os.File) error {
	hash := blake3.New()
	i.progress.Printf("%s: reading", i.result.File)
	sum, err := importer.Read(io.TeeReader(f, hash), func(importer.Row) error { return nil }, i.tell)
	if err != nil {
		return err
	}
	r := &i.result
	r.B3 = fmt.Sprintf("%x", hash.Sum(nil))
	r.Format, r.Bytes, r.Lines, r.Rows, r.NotRead = sum.Format.String(), sum.Bytes, sum.Lines, sum.Rows, sum.Lost
	i.task = sum.Task
	if sum.Rows == 0 {
		return errors.New("nothing in it could be read")
	}
	return nil
}

// tell says what is wrong with a line.
func (i *importing) tell(p importer.Problem) {
	i.result.Problems++
	i.progress.Clear()
	fmt.Fprintf(i.app.stderr, "%s:%d: %s\n", term.Safe(i.result.File), p.Line, term.Safe(p.What))
}

// earlier looks for a former import of the same bytes. One that was finished
// needs nothing more; one that was not has the labels that it began with.
func (i *importing) earlier(ctx context.Context) (labels map[string]string, done bool, err error) {
	page, err := i.client.List(ctx, control.ListQuery{Labels: map[string]string{"source": "import", "b3": i.result.B3}, Limit: 1})
	if err != nil {
		return nil, false, err
	}
	if len(page.Runs) == 0 {
		return i.labels(), false, nil
	}
	r := page.Runs[0]
	i.result.Run = r.ID
	i.result.Already = r.Terminal != nil
	return r.Labels, i.result.Already, nil
}

func (i *importing) labels() map[string]string {
	labels := map[string]string{}
	for k, v := range i.o.Labels {
		labels[k] = v
	}
	if i.o.Thread != "" {
		labels["thread"] = i.o.Thread
	}
	labels["source"] = "import"
	labels["format"] = i.result.Format
	labels["file"] = cutBytes(filepath.Base(i.result.File), labelBytesMax)
	labels["b3"] = i.result.B3
	return labels
}

// cutBytes is s, or as many whole characters of it as n bytes hold.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func (i *importing) start(ctx context.Context, labels map[string]string) (*control.Run, error) {
	lease := leaseDefault.Milliseconds()
	return i.client.Run(ctx, control.StartRequest{
		Labels: labels, Task: i.task, LeaseMS: &lease,
		IdempotencyKey: "import-" + i.result.B3,
	})
}

// rows brings in the rows that a former import did not.
func (i *importing) rows(ctx context.Context, f *os.File, run *control.Run) error {
	skip, err := agentRows(ctx, run)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	stream := run.Stream(ctx, control.StreamOptions{})
	n := 0
	_, err = importer.Read(f, func(row importer.Row) error {
		n++
		i.progress.Printf("%s: row %d of %d", i.result.File, n, i.result.Rows)
		if n <= skip {
			return nil
		}
		return stream.Log(row.JSON)
	}, func(importer.Problem) {})
	return errors.Join(err, stream.Close())
}

// agentRows counts the rows of the log that are not the store's own.
func agentRows(ctx context.Context, run *control.Run) (int, error) {
	l, err := run.Client().Log(ctx, run.ID(), control.LogQuery{})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	for n := 0; ; {
		line, err := l.Next()
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return 0, err
		case !byStore(line):
			n++
		}
	}
}

// byStore reports whether a row is one of the store's own.
func byStore(line []byte) bool {
	var row struct {
		By string `json:"by"`
	}
	return json.Unmarshal(line, &row) == nil && row.By == "store"
}

// end keeps the file's own bytes and settles the run.
func (i *importing) end(ctx context.Context, f *os.File, run *control.Run) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	contentType := control.TypeNDJSON
	if i.result.Format == importer.Trajectory.String() {
		contentType = control.TypeJSON
	}
	put, err := run.Payload(ctx, originalName, contentType, f)
	if err != nil {
		return fmt.Errorf("payload of run %s: %w", run.ID(), err)
	}
	if put.Payload.B3 != i.result.B3 {
		return fmt.Errorf("the file was changed while it was read; run %s holds what was read", run.ID())
	}
	answer, err := json.Marshal(i.result)
	if err != nil {
		return err
	}
	_, err = run.Settle(ctx, control.SettleRequest{
		Status: control.Success, Summary: i.summary(),
		Payload: &control.TerminalPayload{Bytes: append(answer, '\n'), ContentType: control.TypeJSON},
	})
	return err
}

func (i *importing) summary() string {
	r := &i.result
	s := fmt.Sprintf("imported %s (%s): %s", filepath.Base(r.File), r.Format, term.Count(r.Rows, "row"))
	if r.NotRead > 0 {
		s += fmt.Sprintf(", %s not read", term.Count(r.NotRead, "place"))
	}
	return s
}

// print tells what became of the file.
func (i *importing) print() error {
	r := &i.result
	if i.o.JSON {
		return i.app.printJSON(r)
	}
	var err error
	file := term.Safe(r.File)
	switch {
	case r.Error != "":
	case r.Already:
		_, err = fmt.Fprintf(i.app.stdout, "%s  %s: already imported as %s\n", r.Run, file, r.Run)
	default:
		_, err = fmt.Fprintf(i.app.stdout, "%s  %s: %s, %s", r.Run, file, r.Format, term.Count(r.Rows, "row"))
		if r.NotRead > 0 {
			fmt.Fprintf(i.app.stdout, ", %s not read", term.Count(r.NotRead, "place"))
		}
		fmt.Fprintln(i.app.stdout)
	}
	return err
}
