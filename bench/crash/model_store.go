package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	"durafs/runs"
	"durafs/store"
)

// storeModel is what may and must be in a store.
type storeModel struct {
	runs  map[string]*runModel
	order []string
	// forgotten runs are there, and nothing is promised of them any more.
	forgotten int
}

// forgotten is a promise of N runs that were tried, and no more.
const forgotten = "forgotten"

type runModel struct {
	writer   string // "": the start was not acknowledged
	rows     []rowModel
	puts     map[string]*putModel
	answers  []putModel // tried
	answered int        // of them, the one that was acknowledged; 0: none
}

type rowModel struct {
	salt  uint64
	n     int
	size  int
	acked bool
}

type putModel struct {
	salt  uint64
	size  int
	acked bool
}

// modelOfStore adds promises up. Those with "?" were tried.
func modelOfStore(promises []Promise) *storeModel {
	m := &storeModel{runs: map[string]*runModel{}}
	for _, p := range promises {
		switch p.What {
		case wasRead:
			continue
		case forgotten:
			m.forgotten += int(p.N)
			continue
		}
		id, text, _ := strings.Cut(p.Text, "\x00")
		r := m.runs[id]
		if r == nil {
			r = &runModel{puts: map[string]*putModel{}}
			m.runs[id] = r
			m.order = append(m.order, id)
		}
		switch p.What {
		case "start":
			r.writer = text
		case "row?":
			r.rows = append(r.rows, rowModel{salt: p.M, n: int(p.N >> 32), size: int(uint32(p.N))})
		case "row":
			r.ack(p.M, int(p.N>>32))
		case "put?":
			r.puts[text] = &putModel{salt: p.N & 0xffff, size: int(p.N >> 16)}
		case "put":
			r.puts[text].acked = true
		case "settle?":
			r.answers = append(r.answers, putModel{salt: p.M, size: int(p.N)})
		case "settle":
			r.answered = len(r.answers)
		}
	}
	return m
}

func (r *runModel) ack(salt uint64, n int) {
	for i := range r.rows {
		if r.rows[i].salt == salt && r.rows[i].n == n {
			r.rows[i].acked = true
		}
	}
}

// judge holds a store against the model.
func (m *storeModel) judge(s *store.Store) error {
	if n := int(s.Runs().Newest()); n > len(m.runs)+m.forgotten {
		return fmt.Errorf("there are %d runs, of %d that were tried", n, len(m.runs)+m.forgotten)
	}
	for _, id := range m.order {
		if err := m.runs[id].judge(s, id); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
	}
	return nil
}

func (r *runModel) judge(s *store.Store, id string) error {
	ref, ok := s.Runs().Lookup(id)
	if !ok {
		if r.writer != "" {
			return errors.New("it was acknowledged and is gone")
		}
		return nil
	}
	if err := r.judgeRows(s, ref); err != nil {
		return err
	}
	for name, p := range r.puts {
		if err := p.judge(s, ref, name); err != nil {
			return err
		}
	}
	rec, err := s.Runs().Record(ref)
	if err != nil {
		return err
	}
	switch {
	case r.answered > 0 && rec.Terminal == nil:
		return fmt.Errorf("it was settled and is %s", rec.Phase)
	case rec.Terminal != nil && len(r.answers) == 0:
		return errors.New("it is settled, and nobody asked for that")
	case rec.Terminal != nil:
		return r.judgeAnswer(s, ref)
	}
	return nil
}

func (r *runModel) judgeAnswer(s *store.Store, ref runs.Ref) error {
	got, err := payload(s, ref, runs.TerminalName)
	if err != nil {
		return err
	}
	for i, a := range r.answers {
		if bytes.Equal(got, content(a.salt, a.size)) && (r.answered == 0 || r.answered == i+1) {
			return nil
		}
	}
	return fmt.Errorf("the answer of %d bytes is none that was given", len(got))
}

func (p *putModel) judge(s *store.Store, ref runs.Ref, name string) error {
	got, err := payload(s, ref, name)
	if err != nil {
		if !p.acked && runs.CodeOf(err) == runs.UnknownPayload {
			return nil
		}
		return fmt.Errorf("payload %s: %w", name, err)
	}
	if !bytes.Equal(got, content(p.salt, p.size)) {
		return fmt.Errorf("payload %s has %d bytes, not the %d that were given", name, len(got), p.size)
	}
	return nil
}

// judgeRows checks that the rows are those that were tried, in order, with all
// that were acknowledged.
func (r *runModel) judgeRows(s *store.Store, ref runs.Ref) error {
	got, err := agentRows(s, ref)
	if err != nil {
		return err
	}
	i := 0
	for _, want := range r.rows {
		if i < len(got) && want.is(s, ref, got[i]) {
			i++
		} else if want.acked {
			return fmt.Errorf("row %d-%d was acknowledged and is gone", want.salt, want.n)
		}
	}
	if i < len(got) {
		return fmt.Errorf("row %.80s was not tried, or not in this order", got[i])
	}
	return nil
}

func (w *rowModel) is(s *store.Store, ref runs.Ref, line string) bool {
	text := rowText(w.salt, w.n, w.size)
	_, name, large := strings.Cut(line, `"payload":"`)
	if !large {
		return strings.Contains(line, text[1:])
	}
	name, _, _ = strings.Cut(name, `"`)
	got, err := payload(s, ref, name)
	return err == nil && string(got) == text
}

// agentRows are the lines of the log that are the agent's, after a check of all
// their numbers.
func agentRows(s *store.Store, ref runs.Ref) ([]string, error) {
	info, _ := s.Runs().Info(ref)
	log := make([]byte, info.LogBytes)
	if n, err := s.Runs().ReadLogAt(ref, log, 0); n != len(log) || err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the log: %d of %d bytes: %w", n, len(log), err)
	}
	var rows []string
	terminal := 0
	for i, line := range strings.Split(strings.TrimSuffix(string(log), "\n"), "\n") {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"seq":%d,`, i+1)) {
			return nil, fmt.Errorf("line %d has not that seq: %.80s", i+1, line)
		}
		switch {
		case !strings.Contains(line, `"by":"store"`):
			rows = append(rows, line)
		case strings.Contains(line, `"type":"terminal"`):
			terminal++
		}
	}
	if terminal > 1 {
		return nil, fmt.Errorf("the log tells %d times that the run ended", terminal)
	}
	return rows, nil
}

func payload(s *store.Store, ref runs.Ref, name string) ([]byte, error) {
	r, err := s.Runs().OpenPayload(ref, name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, r.Size())
	if n, err := r.ReadAt(b, 0); n != len(b) || err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%d of %d bytes: %w", n, len(b), err)
	}
	return b, nil
}

// contents are made once: most of a judge's time would else go into them.
var contents sync.Map

// content is noise, the same for the same arguments.
func content(salt uint64, size int) []byte {
	key := [2]uint64{salt, uint64(size)}
	if b, ok := contents.Load(key); ok {
		return b.([]byte)
	}
	b := make([]byte, size)
	rng := rand.New(rand.NewPCG(salt, uint64(size)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	contents.Store(key, b)
	return b
}
