package runs

import (
	"context"

	"durafs/wal"
)

// Attach takes a run of a former boot back: its agent outlived the daemon,
// which is the witness that it was not lost. The run goes on in the same
// epoch, with the same token. Needs that token.
func (s *Store) Attach(ctx context.Context, c Caller, id string, r AttachRequest) (Started, error) {
	num, epoch, err := s.gate(ctx, c, id, evAttach)
	if err != nil {
		return Started{}, err
	}
	err = retry(ctx, func() (done bool, err error) {
		done, err = s.submitAttach(ctx, c, num, epoch, r)
		return done, err
	})
	if err != nil {
		return Started{}, err
	}
	return s.started(num, epoch, c)
}

func (s *Store) submitAttach(ctx context.Context, c Caller, num uint32, epoch uint64, r AttachRequest) (done bool, err error) {
	was, err := s.current(num)
	if err != nil {
		return false, err
	}
	if err := accounted(was.OpenCalls, r.Calls); err != nil {
		return false, err
	}
	rec := was.next()
	rec.phase, rec.BootID, rec.Pause = Running, s.bootID, nil
	b := newBatch(num, rec.entry(num),
		ownRow(num, "type", "attached", "epoch", rec.epoch, "boot_id", s.bootID))
	done = true
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evAttach); r != nil {
			return l.answer(r)
		}
		if l.revision != was.revision {
			done = false
			return wal.Decision{}
		}
		if holder, ok := s.enters(was.Lock, was.LockParent, nil); !ok {
			return l.answer(s.lockHeld(was.Lock, holder))
		}
		if l.lastLSN <= s.published {
			l.pub = was // no change of it is under way
		}
		d := s.accept(l, lsn, b)
		l.token = c.Writer // the fence has found it to be the one
		s.closeWindow(l)
		return d
	})
	return done, err
}

// accounted checks that an attach says of every open call, and of no other,
// whether it is running or ended.
func accounted(open []openCall, calls map[uint64]string) error {
	known := 0
	for _, o := range open {
		if calls[o.Call] == "running" || calls[o.Call] == "ended" {
			known++
		}
	}
	if known != len(open) || known != len(calls) {
		r := refuse(UnaccountedCalls, "the run has %d open calls, and the request accounts for %d of them, with %d calls in all", len(open), known, len(calls))
		r.Field = "calls"
		return r
	}
	return nil
}
