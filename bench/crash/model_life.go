package crash

import (
	"errors"
	"fmt"
	"strings"

	"durafs/runs"
	"durafs/store"
)

// lifeFacts is what must, and may, be true of runs after a crash.
type lifeFacts struct{ runs map[string]*lifeFact }

type lifeFact struct {
	writer          string
	did, tried      map[string]bool
	claims, results map[uint64]bool
	shown           map[uint64]bool // calls whose projection shows an image
	revision, epoch uint64
}

func lifeFactsOf(promises []Promise) *lifeFacts {
	m := &lifeFacts{runs: map[string]*lifeFact{}}
	for _, p := range promises {
		if p.What == wasRead {
			continue
		}
		id, writer, _ := strings.Cut(p.Text, "\x00")
		f := m.runs[id]
		if f == nil {
			f = &lifeFact{did: map[string]bool{}, tried: map[string]bool{}, claims: map[uint64]bool{}, results: map[uint64]bool{}, shown: map[uint64]bool{}}
			m.runs[id] = f
		}
		if what, ok := strings.CutSuffix(p.What, "?"); ok {
			f.tried[what] = true
			continue
		}
		f.did[p.What] = true
		switch p.What {
		case "start", "activate":
			f.writer = writer
		case "claim":
			f.claims[p.N] = true
		case "outcome":
			f.results[p.N] = true
		case "shown":
			f.shown[p.N] = true
		case "seen":
			f.revision, f.epoch = max(f.revision, p.N), max(f.epoch, p.M)
		}
	}
	return m
}

func (m *lifeFacts) judge(s *store.Store) error {
	journal, err := s.Runs().Journal(lifeOwner, "master", 0)
	if err != nil {
		return err
	}
	for id, f := range m.runs {
		if err := f.judge(s.Runs(), id); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		ref, there := s.Runs().Lookup(id)
		info, _ := s.Runs().Info(ref)
		started, ends := 0, 0
		for _, row := range journal {
			if !strings.Contains(string(row.JSON), `"run":"`+id+`"`) {
				continue
			}
			switch text := string(row.JSON); {
			case strings.Contains(text, `"type":"started"`):
				started++
			case strings.Contains(text, `"type":"terminal"`), strings.Contains(text, `"type":"cancelled"`):
				ends++
			}
		}
		if there != (started == 1) || (there && info.Sealed()) != (ends == 1) || started > 1 || ends > 1 {
			return fmt.Errorf("run %s: there %v, %d rows of its start and %d of its end in the journal", id, there, started, ends)
		}
	}
	return nil
}

func (f *lifeFact) judge(s *runs.Store, id string) error {
	ref, ok := s.Lookup(id)
	switch {
	case !ok && f.did["start"] && !f.tried["rollback"]:
		return errors.New("it was acknowledged and is gone")
	case ok && f.did["rollback"]:
		return errors.New("its admission was undone, and it is there")
	case !ok:
		if _, err := s.Thread(lifeOwner, id, 0, 0); runs.CodeOf(err) != runs.UnknownThread {
			return fmt.Errorf("it is not there, and its thread is (%w)", err)
		}
		return nil
	}
	rec, err := s.Record(ref)
	if err != nil {
		return err
	}
	if rec.Revision < f.revision || rec.Epoch < f.epoch {
		return fmt.Errorf("revision %d and epoch %d were seen, and it has %d and %d", f.revision, f.epoch, rec.Revision, rec.Epoch)
	}
	if err := f.judgePhase(rec); err != nil {
		return err
	}
	if err := f.judgeCalls(s, id, ref); err != nil {
		return err
	}
	if rec.CopiedFrom != "" {
		if err := judgeCopied(s, id, ref, rec); err != nil {
			return err
		}
	}
	return judgeThread(s, id, rec)
}

// judgePhase: no run is in anyone's hands right after an open, and what was
// acknowledged last is what the run came to.
func (f *lifeFact) judgePhase(rec *runs.Record) error {
	over := rec.Phase == "terminal" || rec.Phase == "cancelled"
	switch {
	case rec.Phase == "running", rec.Phase == "settling", rec.Phase == "resume-dispatching", rec.Phase == "cancel-requested":
		return fmt.Errorf("it is %s right after an open", rec.Phase)
	case f.did["settle"] && !f.did["cancel"] && rec.Phase != "terminal":
		return fmt.Errorf("it was settled and is %s", rec.Phase)
	case f.did["cancel"] && !over, f.did["ack"] && rec.Phase != "cancelled":
		return fmt.Errorf("it was cancelled and is %s", rec.Phase)
	case rec.Phase == "terminal" && !f.tried["settle"], rec.Phase == "cancelled" && !f.tried["cancel"]:
		return fmt.Errorf("it is %s, and nobody asked for that", rec.Phase)
	case f.did["pause"] && !f.tried["activate"] && !over && rec.Phase != "paused-permission":
		return fmt.Errorf("it was paused and is %s", rec.Phase)
	case f.did["prepare"] && !f.tried["again"] && rec.Resume.Attempt == 0:
		return errors.New("a dispatch is not counted")
	case rec.Phase == "cancelled" && rec.Cancel.Abort == "":
		return errors.New("it is cancelled, and what became of its agent is not said")
	}
	return nil
}

func (f *lifeFact) judgeCalls(s *runs.Store, id string, ref runs.Ref) error {
	calls, err := s.Calls(ref, 0, 0)
	if err != nil {
		return err
	}
	for n := range f.claims {
		if uint64(len(calls)) < n || string(calls[n-1].Args) != fmt.Sprint(n) {
			return fmt.Errorf("the claim of call %d was acknowledged and is gone", n)
		}
	}
	for i := range calls {
		if err := f.judgeShown(s, id, ref, &calls[i], calls[i].Call); err != nil {
			return err
		}
	}
	for n := range f.results {
		if r := calls[n-1].Result; r == nil || r.ByStore || string(r.Outcome) != string(lifeOutcome(n)) {
			return fmt.Errorf("the outcome of call %d was acknowledged and is not there", n)
		}
	}
	return nil
}

// judgeThread: the user's turn once, and one message of the end if it is over.
func judgeThread(s *runs.Store, id string, rec *runs.Record) error {
	page, err := s.Thread(lifeOwner, id, 0, 0)
	if err != nil {
		return err
	}
	want := 1
	if rec.Phase == "terminal" || rec.Phase == "cancelled" {
		want = 2
	}
	if len(page.Messages) != want || page.Messages[0].Role != "user" {
		return fmt.Errorf("it is %s, and its thread has %d messages", rec.Phase, len(page.Messages))
	}
	return nil
}
