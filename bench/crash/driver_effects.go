package crash

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"durafs/projection"
	"durafs/runs"
	"durafs/store"
)

// Effects commits outcomes with what a model is shown of them: images of each
// way to store one. Outcome, projection and images are there together, or none;
// and what a crash has left of those that are not, a sweep gives back to the last
// byte.
func Effects() *Driver {
	w := lifeWork{script: (*lifeAgent).effects, judged: judgeSwept}
	return w.driver("effects", "outcomes with projections and their images, of each way to store one; settlement")
}

// judgeSwept sweeps, and then nothing is left that nothing refers to, and all that
// was acknowledged is there.
func judgeSwept(l *Life, s *store.Store) error {
	if l.Faulty {
		return nil
	}
	ctx := context.Background()
	if _, err := s.Sweep(ctx, store.SweepOptions{All: true}); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	var found []error
	sum, err := store.Verify(ctx, storeDir, store.VerifyOptions{FS: l.Disk}, func(f store.Finding) {
		found = append(found, errors.New(f.String()))
	})
	if sum.UnreferencedRecords > 0 || sum.Dangling > 0 {
		found = append(found, fmt.Errorf("after a sweep %+v", sum))
	}
	return errors.Join(append(found, err, lifeFactsOf(l.Promises()).judge(s))...)
}

// Resume lets a run wait for a permission, fail to be dispatched, go on and end.
func Resume() *Driver {
	w := lifeWork{script: (*lifeAgent).resumed}
	return w.driver("resume", "a pause, a grant, a failed dispatch, an activation, a repeated call, settlement")
}

// shownBytes are sizes of images: inline, in one chunk, in several.
var shownBytes = []int{900, 17_000, 70_000}

// shown is the image that the call's projection shows.
func shown(call uint64) []byte {
	b := append([]byte(nil), content(1000+call, shownBytes[(call-1)%uint64(len(shownBytes))])...)
	copy(b, "\xff\xd8\xff")
	return b
}

func (a *lifeAgent) effects() error {
	if err := a.start(); err != nil {
		return err
	}
	for call := range uint64(len(shownBytes)) {
		if err := steps(func() error { return a.claim(call+1, "mutating") }, func() error { return a.projected(call + 1) }); err != nil {
			return err
		}
	}
	return a.settle()
}

// projected commits an outcome with an image.
func (a *lifeAgent) projected(n uint64) error {
	candidate := fmt.Sprintf(`{"v":1,"status":"ok","parts":[{"kind":"image","media_type":"image/jpeg","data":%q}]}`,
		base64.StdEncoding.EncodeToString(shown(n)))
	sentinel := false
	err := a.do("outcome", n, func(ctx context.Context) error {
		got, err := a.s.Outcome(ctx, a.c, a.id, runs.OutcomeRequest{
			Call: n, Outcome: lifeOutcome(n),
			Projection: func(context.Context) ([]byte, error) { return []byte(candidate), nil },
		})
		sentinel = string(got.Projection) == projection.Sentinel
		return err
	})
	if err == nil && !sentinel {
		a.l.Promise(Promise{What: "shown", N: n, Text: a.id + "\x00"})
	}
	return err
}

// judgeShown: what a projection refers to is there, byte for byte, and what was
// acknowledged as shown is shown.
func (f *lifeFact) judgeShown(s *runs.Store, id string, ref runs.Ref, call *runs.Call, n uint64) error {
	var refs []projection.Ref
	if r := call.Result; r != nil && len(r.Projection) > 0 {
		p, err := projection.Decode(r.Projection, id)
		if err != nil {
			return fmt.Errorf("the projection of call %d: %w", n, err)
		}
		refs = p.Refs()
	}
	if f.shown[n] && len(refs) == 0 {
		return fmt.Errorf("the projection of call %d was acknowledged and shows nothing", n)
	}
	if len(refs) == 0 {
		return nil
	}
	var history bytes.Buffer
	if err := s.History(context.Background(), ref, runs.HistoryRequest{Materialize: true, Vision: true, ImageBudget: runs.ImageBudgetDefault}, &history); err != nil {
		return err
	}
	if !bytes.Contains(history.Bytes(), []byte(base64.StdEncoding.EncodeToString(shown(n)))) {
		return fmt.Errorf("the projection of call %d refers to %s, and the history does not show those bytes", n, refs[0].Name)
	}
	return nil
}

// resumed waits for a permission, fails to be dispatched, and comes to its end.
func (a *lifeAgent) resumed() error {
	var token string
	prepare := func(ctx context.Context) error {
		_, tag, err := a.s.Get(lifeOwner, a.id)
		if err != nil {
			return err
		}
		p, err := a.s.Prepare(ctx, lifeOwner, a.id, runs.PrepareRequest{IfMatch: tag})
		token = p.Token
		return err
	}
	step := func(what string, n uint64, fn func(context.Context) error) func() error {
		return func() error { return a.do(what, n, fn) }
	}
	return steps(
		a.start,
		func() error { return a.claim(1, "read-only") },
		step("pause", 0, func(ctx context.Context) error {
			_, _, err := a.s.Pause(ctx, a.c, a.id, runs.PauseRequest{Reason: runs.ForPermission, Binding: bound})
			return err
		}),
		step("grant", 0, func(ctx context.Context) error { return a.s.GrantScope(ctx, lifeOwner, "s", true) }),
		step("prepare", 0, prepare),
		step("fail", 0, func(ctx context.Context) error {
			_, _, err := a.s.FailDispatch(ctx, runs.Caller{Resume: token}, a.id, runs.FailRequest{})
			return err
		}),
		step("prepare", 0, prepare),
		step("activate", 0, func(ctx context.Context) error {
			got, err := a.s.Activate(ctx, runs.Caller{Resume: token}, a.id, runs.ActivateRequest{Binding: bound})
			a.c.Writer = got.Writer
			return err
		}),
		step("again", 1, func(ctx context.Context) error {
			_, err := a.s.Again(ctx, a.c, a.id, runs.AgainRequest{Call: 1})
			return err
		}),
		func() error { return a.outcome(1) },
		a.settle,
	)
}
