package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"durafs/runs"
	"durafs/store"
	"durafs/wal"
)

// rotten opens a store that has rotted. Without store.json it may refuse, naming
// the damage. What it shows is right, and what is not there it names, at open or when it is read.
func (w *storeWork) rotten(l *Life) error {
	m := modelOfStore(l.Promises())
	s, err := store.Open(context.Background(), storeDir, w.options(l))
	if err != nil {
		return named(err)
	}
	defer end(l, s, false)
	rec := s.Recovery()
	silent := len(rec.Notes) == 0 && rec.LostCount == 0 && s.Healthy() == nil && l.Closes
	for _, id := range m.order {
		if err := m.runs[id].judgeRotten(s, id, silent); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
	}
	return nil
}

// named is nil for a refusal that says what is damaged.
func named(err error) error {
	var inLog *wal.DamageError
	var config *store.ConfigError
	if errors.As(err, &inLog) || errors.As(err, &config) {
		return nil
	}
	return fmt.Errorf("rot is not named: %w", err)
}

// judgeRotten judges a run. silent says that nothing was named as damaged.
func (r *runModel) judgeRotten(s *store.Store, id string, silent bool) error {
	ref, ok := s.Runs().Lookup(id)
	if !ok {
		if silent && r.writer != "" {
			return errors.New("it is gone, and nothing says so")
		}
		return nil
	}
	if err := r.rowsRotten(s, ref, silent); err != nil {
		return err
	}
	for name, p := range r.puts {
		got, err := payload(s, ref, name)
		switch {
		case err == nil && !bytes.Equal(got, content(p.salt, p.size)):
			return fmt.Errorf("payload %s is shown with wrong bytes", name)
		case err != nil && runs.CodeOf(err) == runs.UnknownPayload && p.acked && silent:
			return fmt.Errorf("payload %s is gone, and nothing says so", name)
		}
	}
	return nil
}

func (r *runModel) rowsRotten(s *store.Store, ref runs.Ref, silent bool) error {
	got, err := agentRows(s, ref)
	if err != nil {
		return nil // reading says that it is damaged
	}
	i := 0
	for _, want := range r.rows {
		text := rowText(want.salt, want.n, want.size)
		switch {
		case i < len(got) && (strings.Contains(got[i], text[1:]) || strings.Contains(got[i], `"payload":"`) && want.size > 60<<10):
			i++
		case want.acked && silent:
			return fmt.Errorf("row %d-%d is gone, and nothing says so", want.salt, want.n)
		}
	}
	if i < len(got) && silent {
		return fmt.Errorf("row %.80s is shown and was never given", got[i])
	}
	return nil
}
