package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"durafs/runs"
	"durafs/store"
)

// boundedRunBytesMax is so much that a run can begin, and its first row finds no
// room where it is large.
const boundedRunBytesMax = 600

// Bounded takes a run back whose first row passes the bound of a run.
func Bounded() *Driver {
	w := lifeWork{script: (*lifeAgent).undoneAtBound, runBytesMax: boundedRunBytesMax, judged: judgeBytes}
	return w.variant("bounded", "an admission that is undone at the bound of a run, with its idempotency key, which is used again")
}

// Compensate takes admissions back among others, whose rows of the journal stay.
func Compensate() *Driver {
	w := lifeWork{script: (*lifeAgent).compensated, runBytesMax: boundedRunBytesMax, judged: judgeBytes}
	return w.variant("compensate", "rows of a journal that go with admissions that are undone, among rows of others, before and behind")
}

// Delete deletes payloads of a run, while it goes on and when it is over.
func Delete() *Driver {
	w := lifeWork{script: (*lifeAgent).deletes, judged: func(l *Life, s *store.Store) error {
		return errors.Join(judgeBytes(l, s), judgeDeleted(l, s.Runs()), judgeSwept(l, s))
	}}
	return w.variant("delete", "payloads that are deleted, some of whose bytes others share")
}

func (w *lifeWork) variant(name, doc string) *Driver {
	d := w.driver(name, doc)
	d.Variant = true
	return d
}

// judgeBytes: what the runs count for is what is there of them.
func judgeBytes(_ *Life, st *store.Store) error {
	s := st.Runs()
	all := int64(0)
	for ref := runs.Ref(1); ref <= s.Newest(); ref++ {
		run, ok := s.Info(ref)
		if !ok {
			continue
		}
		all += run.Bytes
		list, err := s.PayloadList(ref)
		if err != nil {
			return err
		}
		have := run.LogBytes + 1 // the resume request
		for _, p := range list {
			have += p.Bytes
		}
		if calls, err := s.Calls(ref, 0, 0); err != nil || len(calls) > 0 {
			return fmt.Errorf("no call was made, and there are %d (%w)", len(calls), err)
		}
		// The answer of a settlement that a crash has cut off is there, and not
		// shown.
		if unseen := run.Bytes - have; unseen < 0 || unseen%lifeAnswerBytes != 0 || unseen > maxUnseen*lifeAnswerBytes {
			return fmt.Errorf("run %s has %d bytes, and counts for %d", run.ID, have, run.Bytes)
		}
	}
	if u := s.Usage(); u.Bytes != all {
		return fmt.Errorf("the runs count for %d bytes, and together for %d", all, u.Bytes)
	}
	return nil
}

// maxUnseen is how many settlements of a run may have been cut off.
const maxUnseen = 3

// deny lets a first row find no room.
func (a *lifeAgent) deny() error {
	_, err := a.s.Append(context.Background(), a.c, a.id, []runs.Row{{JSON: []byte(`{"x":"` + strings.Repeat("x", boundedRunBytesMax) + `"}`)}}, "")
	if runs.CodeOf(err) != runs.RunBytes {
		return fmt.Errorf("a row that is too much is answered %w", a.l.refused(err))
	}
	return nil
}

func (a *lifeAgent) rollback() error {
	a.l.Promise(Promise{What: "rollback?", Text: a.id + "\x00"})
	if err := a.l.refused(a.s.Rollback(context.Background(), a.c, a.id)); err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	a.l.Promise(Promise{What: "rollback", Text: a.id + "\x00"})
	return nil
}

func (a *lifeAgent) undoneAtBound() error {
	b := &lifeAgent{l: a.l, s: a.s, id: "exec_b"}
	if err := steps(a.start, a.deny, a.rollback); err != nil {
		return err
	}
	return steps(func() error {
		return b.do("start", 0, func(ctx context.Context) error {
			st, err := a.s.Start(ctx, runs.Caller{UID: 1}, runs.StartRequest{
				ID: b.id, Labels: runs.Labels{"thread": b.id}, Message: []byte(`"do"`), ResumeRequest: []byte("x"), IdempotencyKey: a.id,
			})
			if b.c.Writer = st.Writer; err == nil && st.Replayed {
				err = errors.New("the key of a start that was undone is known")
			}
			return err
		})
	}, b.settle)
}

func (a *lifeAgent) compensated() error {
	all := []*lifeAgent{a}
	for n := range 4 {
		all = append(all, &lifeAgent{l: a.l, s: a.s, id: fmt.Sprint("exec_", n)})
	}
	err := steps(
		all[0].start, all[1].start, all[2].start,
		all[1].deny, all[1].rollback,
		all[3].start, all[4].start,
		all[3].deny, all[0].settle, all[3].rollback,
		all[2].deny, all[2].rollback,
	)
	if err != nil {
		return err
	}
	return all[4].settle()
}

// deletedBytes are sizes of payloads: inline, and in a pack.
var deletedBytes = map[string]int{"inline": 900, "large": 20_000, "same": 20_000}

func (a *lifeAgent) deletes() error {
	put := func(name string) func() error {
		return func() error {
			return a.do("put "+name, 0, func(ctx context.Context) error {
				_, _, err := a.s.Put(ctx, a.c, a.id, name, runs.SourceNamed, "", bytes.NewReader(content(9, deletedBytes[name])))
				return err
			})
		}
	}
	remove := func(name string) func() error {
		return func() error {
			return a.do("delete "+name, 0, func(ctx context.Context) error {
				_, err := a.s.DeletePayload(ctx, lifeOwner, a.id, name)
				return err
			})
		}
	}
	return steps(a.start, put("inline"), put("large"), put("same"), remove("large"), remove("inline"), a.settle, remove("same"))
}

// judgeDeleted: what was deleted is told of once and is not there, and what was
// not is there, whatever it shares.
func judgeDeleted(l *Life, s *runs.Store) error {
	f := lifeFactsOf(l.Promises()).runs["exec_a"]
	ref, ok := s.Lookup("exec_a")
	if f == nil || !ok {
		return nil
	}
	run, _ := s.Info(ref)
	told := make([]byte, run.LogBytes+run.LateBytes)
	if _, err := s.ReadLogAt(ref, told[:run.LogBytes], 0); err != nil && err != io.EOF {
		return err
	}
	if _, err := s.ReadLateAt(ref, told[run.LogBytes:], 0); err != nil && err != io.EOF {
		return err
	}
	for name, size := range deletedBytes {
		r, err := s.OpenPayload(ref, name)
		gone := runs.CodeOf(err) == runs.PayloadDeleted
		rows := bytes.Count(told, []byte(`payload-deleted","name":"`+name+`"`))
		switch {
		case f.did["delete "+name] && !gone, gone && !f.tried["delete "+name], gone != (rows == 1), rows > 1:
			return fmt.Errorf("of the payload %s %d rows tell that it was deleted, and a reader is told %w", name, rows, err)
		case gone, !f.did["put "+name] && runs.CodeOf(err) == runs.UnknownPayload:
			continue
		case err != nil:
			return fmt.Errorf("the payload %s: %w", name, err)
		}
		b := make([]byte, r.Size())
		if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
			return fmt.Errorf("the payload %s: %w", name, err)
		}
		if !bytes.Equal(b, content(9, size)) {
			return fmt.Errorf("the payload %s has other bytes", name)
		}
	}
	return nil
}
