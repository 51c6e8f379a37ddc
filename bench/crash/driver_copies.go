package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"durafs/runs"
	"durafs/store"
)

// Copies copies a run with a call that shows an image, and goes on with both.
// The copy is there as a whole or not at all, and the source is not touched.
func Copies() *Driver {
	w := lifeWork{script: (*lifeAgent).copies, judged: func(l *Life, s *store.Store) error {
		return lifeFactsOf(l.Promises()).judgeCounts(s.Runs())
	}}
	return w.driver("copies", "a copy of a run with a projection and its image; both go on; settlements")
}

func (a *lifeAgent) copies() error {
	b := &lifeAgent{l: a.l, s: a.s, id: "exec_b"}
	return steps(
		a.start,
		func() error { return a.claim(1, "mutating") },
		func() error { return a.projected(1) },
		func() error { return a.claim(2, "read-only") },
		func() error { return a.copyTo(b) },
		func() error { return b.claim(2, "mutating") },
		func() error { return a.outcome(2) },
		a.settle,
		func() error { return b.projected(2) },
		b.settle,
	)
}

// copyTo lets b be a copy of the run up to its second call. What is promised of
// the first call holds for b as it does for a.
func (a *lifeAgent) copyTo(b *lifeAgent) error {
	err := b.do("start", 0, func(ctx context.Context) error {
		st, err := a.s.Copy(ctx, lifeOwner, a.id, runs.CopyRequest{
			Kind: "revise", Call: 2,
			StartRequest: runs.StartRequest{ID: b.id, Labels: runs.Labels{"thread": b.id}, Message: []byte(`"instead"`), IdempotencyKey: b.id},
		})
		b.c.Writer = st.Writer
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range a.l.Promises() {
		if strings.HasPrefix(p.Text, a.id+"\x00") && p.N == 1 && (p.What == "claim" || p.What == "outcome" || p.What == "shown") {
			a.l.Promise(Promise{What: p.What, N: 1, Text: b.id + "\x00"})
		}
	}
	return nil
}

var projectionDigest = regexp.MustCompile(`"projection_b3":"[0-9a-f]*"`)

// judgeCopied: a copy that is there has all rows of its prefix, and what its
// source shows of the calls in it.
func judgeCopied(s *runs.Store, id string, ref runs.Ref, rec *runs.Record) error {
	source, ok := s.Lookup(rec.CopiedFrom)
	if !ok {
		return fmt.Errorf("it is a copy of %s, which is not there", rec.CopiedFrom)
	}
	have, err := prefixOf(s, ref)
	if err != nil {
		return err
	}
	want, err := prefixOf(s, source)
	if err != nil {
		return err
	}
	at := bytes.LastIndexByte(have[:max(0, bytes.Index(have, []byte(`"type":"copied"`)))], '\n')
	if at < 0 || !bytes.HasPrefix(want, have[:at+1]) {
		return fmt.Errorf("it does not begin with rows of its source: %.300s", have)
	}
	var shown [2]bytes.Buffer
	upto := uint64(bytes.Count(have[:at+1], []byte("\n")))
	for i, r := range []runs.Ref{source, ref} {
		if err := s.History(context.Background(), r, runs.HistoryRequest{Upto: upto}, &shown[i]); err != nil {
			return err
		}
	}
	if strings.ReplaceAll(shown[0].String(), `"run":"`+rec.CopiedFrom+`"`, `"run":"`+id+`"`) != shown[1].String() {
		return fmt.Errorf("its history is\n%s\nand that of its source\n%s", &shown[1], &shown[0])
	}
	return nil
}

// prefixOf is a run's log without what is another one in a copy.
func prefixOf(s *runs.Store, ref runs.Ref) ([]byte, error) {
	info, _ := s.Info(ref)
	text := make([]byte, info.LogBytes)
	if n, err := s.ReadLogAt(ref, text, 0); n < len(text) && err != io.EOF {
		return nil, err
	}
	return projectionDigest.ReplaceAll(text, nil), nil
}

// judgeCounts: every run that counts is one that was started, and can be found.
func (m *lifeFacts) judgeCounts(s *runs.Store) error {
	there, counted := 0, 0
	for id := range m.runs {
		if _, ok := s.Lookup(id); ok {
			there++
		}
	}
	for _, n := range s.Counts() {
		counted += n
	}
	if counted != there {
		return fmt.Errorf("there are %d runs, and %d are counted", there, counted)
	}
	return nil
}
