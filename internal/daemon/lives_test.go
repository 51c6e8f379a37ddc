package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"durafs/control"
	"durafs/projection"
	"durafs/runs"
	"durafs/store"
)

const (
	livesRounds      = 5
	livesRoundsShort = 2
	livesAtOnce      = 6
	// livesMax is how many lives an agent gets: at the third dispatch that
	// came to nothing its run would be over.
	livesMax = 4
	// liveFor is how long an agent lives, or the daemon, at the most.
	liveFor = 400 * time.Millisecond
)

// said is a line that an agent, or the owner, says of what was acknowledged.
type said struct {
	What string // started, row, call, settled, cancelled; undoing, undone
	Seq  uint64
	Text string
	// Shown is what was committed to be shown of a call: its text, or what
	// stands for one that was cut off, as where the run was cancelled.
	Shown string
}

func init() { helpers["life"] = oneLife }

// oneLife is a life of an agent: it writes rows and runs tools, and at some time
// settles. It prints what it was told is durable, as soon as it was told.
func oneLife() error {
	id, resume := os.Getenv("AGENT_RUN"), os.Getenv("AGENT_RESUME")
	seed, err := strconv.ParseUint(os.Getenv("AGENT_SEED"), 10, 64)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	ctx, cancel := context.WithTimeout(context.Background(), 2*readyPatience)
	defer cancel()
	say := func(s said) {
		b, _ := json.Marshal(s)
		os.Stdout.Write(append(b, '\n'))
	}
	var c control.Client
	var r *control.Run
	if resume == "" {
		forever := int64(0)
		r, err = c.Run(ctx, control.StartRequest{
			ID: id, LeaseMS: &forever, Labels: map[string]string{"thread": os.Getenv("AGENT_THREAD")},
			Message: json.RawMessage(`{"text":"do it"}`),
		})
	} else {
		r, _, err = c.Resumed(ctx, id, resume, nil)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	say(said{What: "started"})
	if err := c.WithWriter(r.Token()).Rollback(ctx, id); control.Code(err) != "rollback-refused" && control.Code(err) != control.CodeAttachRequired {
		return fmt.Errorf("a rollback on a disk with space: %w", err) // refused for want of a reason
	}
	if resume == "" && rnd.IntN(4) == 0 {
		if over, err := undo(ctx, c.WithWriter(r.Token()), id, say); over {
			return err
		}
	}
	safeties := []string{control.ReadOnly, control.ReadOnly, control.Idempotent, control.Mutating}
	for n := range 4 + rnd.IntN(12) {
		text := fmt.Sprintf("%s-%d", os.Getenv("AGENT_SEED"), n)
		if rnd.IntN(3) > 0 {
			a, err := r.Log(ctx, map[string]string{"text": text})
			if err != nil {
				return err
			}
			say(said{What: "row", Seq: a.LastSeq, Text: text})
			continue
		}
		got, err := r.Tool(ctx, control.ToolCall{ID: text, Name: "t"}, safeties[rnd.IntN(4)], func(context.Context, control.Claimed) (any, error) {
			<-time.After(time.Duration(rnd.IntN(20)) * time.Millisecond)
			return text, nil
		}, nil)
		if err != nil {
			return err
		}
		say(said{What: "call", Seq: got.Call, Text: text, Shown: string(got.Projection)})
	}
	if _, err := r.Settle(ctx, control.SettleRequest{Status: control.Success, Summary: id}); err != nil {
		return err
	}
	say(said{What: "settled"})
	return nil
}

// livesRunBytesMax is so much that the lives of a run have room in it.
const livesRunBytesMax = 128 << 10

// undo writes more than there is room for, and takes the run back: it could not
// even begin. Where the daemon does not know any more why, in another life, the
// run goes on.
func undo(ctx context.Context, w *control.Client, id string, say func(said)) (over bool, err error) {
	_, err = w.Append(ctx, id, []byte(`{"text":"`+strings.Repeat("x", livesRunBytesMax)+`"}`), "")
	if err == nil {
		return true, errors.New("a row that is too large for a run was taken")
	}
	if control.Code(err) != control.CodeRunBytes && control.Code(err) != control.CodeAttachRequired {
		return true, err
	}
	say(said{What: "undoing"})
	switch err := w.Rollback(ctx, id); control.Code(err) {
	case "":
		if err == nil {
			say(said{What: "undone"})
		}
		return true, err
	case "rollback-refused", control.CodeAttachRequired:
		return false, nil
	default:
		return true, err
	}
}

// aLife is what is known of a run: what was acknowledged.
type aLife struct {
	id, thread string
	said       []said
}

func (l *aLife) heard(what string) bool {
	return slices.ContainsFunc(l.said, func(s said) bool { return s.What == what })
}

// lives is the trial: agents and their daemon are killed, and an owner cancels
// and resumes.
type lives struct {
	t    *testing.T
	d    *victim
	seed uint64

	mu    sync.Mutex // guards what follows
	all   []*aLife
	final map[string]string // how runs have ended, as it was first seen
}

// TestKillLives: agents, processes of their own, work, settle, and are killed at
// random moments, and so is the daemon; owners cancel and resume; some runs find no
// room for their first row, and are rolled back. Afterwards nothing that was acknowledged is missing; what has ended has
// ended the same way ever since, with one terminal row in the journal and one
// message in its thread; and nothing runs without its agent.
func TestKillLives(t *testing.T) {
	rounds := livesRounds
	switch {
	case isSet("rounds"):
		rounds = *roundsFlag
	case testing.Short():
		rounds = livesRoundsShort
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%d rounds, -seed %d", rounds, seed)
	x := &lives{t: t, seed: seed, d: &victim{t: t, program: buildProgram(t), dir: shortDir(t), flags: []string{"--run-bytes-max", strconv.Itoa(livesRunBytesMax)}}, final: map[string]string{}}
	t.Cleanup(x.d.kill)
	x.d.start()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	for n := range livesAtOnce {
		workers.Go(func() { x.work(ctx, n) })
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		x.d.after(rnd, liveFor)
		x.d.kill()
		x.d.start()
		x.look()
	}
	stop()
	workers.Wait()
	x.d.kill()
	x.d.start()
	x.look()
	x.check()
	x.d.terminate()
	x.checkStore()
}

// work gives one run after the other to agents.
func (x *lives) work(ctx context.Context, worker int) {
	rnd := rand.New(rand.NewPCG(x.seed, uint64(worker+2)))
	for n := 0; ctx.Err() == nil; n++ {
		l := &aLife{id: fmt.Sprintf("exec_%d-%d", worker, n), thread: fmt.Sprintf("thread-%d", worker)}
		x.mu.Lock()
		x.all = append(x.all, l)
		x.mu.Unlock()
		token := ""
		for range livesMax {
			x.life(ctx, l, rnd, token)
			if ctx.Err() != nil {
				return
			}
			if token = x.owner(ctx, l, rnd); token == "" {
				break
			}
		}
	}
}

// life lets an agent live, for a random time, and keeps what it said.
func (x *lives) life(ctx context.Context, l *aLife, rnd *rand.Rand, token string) {
	ctx, cancel := context.WithCancel(ctx)
	if rnd.IntN(3) > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.Int64N(int64(liveFor))))
	}
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0]) // killed when ctx ends
	cmd.Env = append(os.Environ(), helperEnv+"=life", control.EnvSocket+"="+x.d.socket(), "AGENT_RUN="+l.id,
		"AGENT_RESUME="+token, "AGENT_THREAD="+l.thread, fmt.Sprintf("AGENT_SEED=%d", rnd.Uint64()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if rnd.IntN(4) == 0 {
		cancelled := make(chan struct{})
		go func() {
			defer close(cancelled)
			x.cancel(ctx, l, time.Duration(rand.Int64N(int64(liveFor))))
		}()
		defer func() { <-cancelled }()
	}
	runErr := cmd.Run()
	sc := bufio.NewScanner(&out)
	for sc.Scan() {
		var s said
		if json.Unmarshal(sc.Bytes(), &s) == nil { // the last line may be half of one
			x.say(l, s)
		}
	}
	if code := refusedFor.FindString(errs.String()); code != "" && !slices.Contains(livesMayEnd, code) {
		x.t.Errorf("the agent of %s: %v: %s", l.id, runErr, &errs)
	}
}

// refusedFor is the code of the problem that an agent ended with.
var refusedFor = regexp.MustCompile(`\[[a-z-]+\]`)

// livesMayEnd are the refusals that an agent may end with: its owner was faster.
// A daemon that was away for too long is no refusal.
var livesMayEnd = []string{"[cancel-requested]", "[finished]", "[stale-writer]", "[wrong-phase]", "[settle-conflict]"}

func (x *lives) say(l *aLife, s said) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l.said = append(l.said, s)
}

// cancel cancels the run after a while.
func (x *lives) cancel(ctx context.Context, l *aLife, after time.Duration) {
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return
	}
	c := &control.Client{Socket: x.d.socket()}
	defer c.CloseIdle()
	_, err := c.Cancel(ctx, l.id, control.CancelRequest{})
	switch {
	case err == nil:
		x.say(l, said{What: "cancelled"})
	case !mayHaveHappened(err) && !slices.Contains([]string{"finished", "cancel-requested", "unknown-run"}, control.Code(err)) && !isAwayProblem(err):
		x.t.Errorf("cancelling %s: %v", l.id, err)
	}
}

func isAwayProblem(err error) bool {
	var p *control.Problem
	return errors.As(err, &p) && p.Status == 503
}

// owner finds out what became of a run whose agent is dead, and prepares it for
// the next one, where that can be.
func (x *lives) owner(ctx context.Context, l *aLife, rnd *rand.Rand) (token string) {
	c := &control.Client{Socket: x.d.socket()}
	defer c.CloseIdle()
	for ctx.Err() == nil {
		rec, etag, err := c.Get(ctx, l.id)
		switch {
		case control.Code(err) == "unknown-run":
			return "" // it was killed before it began
		case err != nil:
			continue // the daemon is away
		case rec.Sealed():
			return ""
		}
		switch rec.Phase {
		case control.PhasePausedInterruption, control.PhasePausedSideEffectUncertain:
			q := control.PrepareRequest{IfMatch: etag, Dead: true}
			for _, o := range rec.OpenCalls {
				if rnd.IntN(2) == 0 {
					q.Retry = append(q.Retry, o.Call)
				} else {
					q.Close = append(q.Close, o.Call)
				}
			}
			if p, err := c.Prepare(ctx, l.id, q); err == nil {
				return p.Resume
			}
		case control.PhaseResumeDispatching:
			c.FailDispatch(ctx, l.id, "", "its answer was lost")
		default: // until the daemon dies: it has no lease
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	return ""
}

// look compares all runs with what was seen of them before.
func (x *lives) look() {
	x.t.Helper()
	c := &control.Client{Socket: x.d.socket()}
	defer c.CloseIdle()
	var status struct {
		BootID string `json:"boot_id"`
	}
	raw, err := c.Status(x.t.Context())
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil || status.BootID == "" {
		x.t.Fatalf("status: %v %s", err, raw)
	}
	for after := ""; ; {
		page, err := c.List(x.t.Context(), control.ListQuery{After: after, Limit: 1000})
		if err != nil {
			x.t.Fatal(err)
		}
		for _, rec := range page.Runs {
			if rec.Phase == control.PhaseRunning && rec.BootID != status.BootID {
				x.t.Errorf("%s is running, of the boot %s; this is %s", rec.ID, rec.BootID, status.BootID)
			}
			if rec.Sealed() {
				x.ended(rec)
			}
		}
		if after = page.Next; after == "" {
			return
		}
	}
}

func (x *lives) ended(rec *control.Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	how, err := json.Marshal([]any{rec.Phase, rec.Terminal, rec.Cancel, rec.Revision})
	if err != nil {
		x.t.Fatal(err)
	}
	if was := x.final[rec.ID]; was != "" && was != string(how) {
		x.t.Errorf("%s has ended as %s, and was seen to have ended as %s", rec.ID, how, was)
	}
	x.final[rec.ID] = string(how)
}

// check looks for everything that was acknowledged. All agents are dead, and the
// daemon was started again: nothing runs, and no cancel is under way.
func (x *lives) check() {
	c := &control.Client{Socket: x.d.socket()}
	defer c.CloseIdle()
	count := map[string]int{}
	for _, l := range x.all {
		for _, s := range l.said {
			count[s.What]++
		}
		rec, _, err := c.Get(x.t.Context(), l.id)
		if control.Code(err) == "unknown-run" && (len(l.said) == 0 || l.heard("undoing")) {
			continue
		}
		if err == nil && l.heard("undone") {
			x.t.Errorf("%s was rolled back, and is there", l.id)
		}
		if err != nil {
			x.t.Errorf("%s, of which was said %v: %v", l.id, l.said, err)
			continue
		}
		count[rec.Phase]++
		switch cancelled, settled := l.heard("cancelled"), l.heard("settled"); {
		case rec.Phase == control.PhaseRunning, rec.Phase == control.PhaseSettling, rec.Phase == control.PhaseCancelRequested:
			x.t.Errorf("%s is %s, and there is nobody", l.id, rec.Phase)
		case cancelled && rec.Phase != control.PhaseCancelled, settled && rec.Phase != control.PhaseTerminal:
			x.t.Errorf("%s is %s: cancelled %v, settled %v", l.id, rec.Phase, cancelled, settled)
		}
		x.checkSaid(c, l)
	}
	x.t.Logf("%d runs: %v", len(x.all), count)
}

// checkSaid looks for rows and calls of a run.
func (x *lives) checkSaid(c *control.Client, l *aLife) {
	texts := map[uint64]string{}
	times := map[string]int{}
	for _, line := range logOf(x.t, c, l.id) {
		var row struct {
			Seq  uint64
			Text string
		}
		if err := json.Unmarshal(line, &row); err != nil {
			x.t.Fatal(err)
		}
		texts[row.Seq] = row.Text
		if row.Text != "" {
			if times[row.Text]++; times[row.Text] > 1 {
				x.t.Errorf("%s: the row %s is there twice", l.id, row.Text)
			}
		}
	}
	h, err := c.History(x.t.Context(), l.id, control.HistoryQuery{})
	if err != nil {
		x.t.Fatal(err)
	}
	defer h.Close()
	history, err := io.ReadAll(h)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, s := range l.said {
		shownCall := fmt.Sprintf(`"call":%d,"call_id":%q,"name":"t","result":%s}`, s.Seq, s.Text, s.Shown)
		whole := fmt.Sprintf(`{"v":1,"status":"ok","parts":[{"kind":"text","text":%q}]}`, s.Text)
		switch {
		case s.What == "row" && texts[s.Seq] != s.Text:
			x.t.Errorf("%s: the row %d is %q, acknowledged was %q", l.id, s.Seq, texts[s.Seq], s.Text)
		case s.What == "call" && s.Shown != whole && s.Shown != projection.Sentinel:
			x.t.Errorf("%s: the call %d is answered with %s", l.id, s.Seq, s.Shown)
		case s.What == "call" && !bytes.Contains(history, []byte(shownCall)):
			x.t.Errorf("%s: the call %d was acknowledged, and the history is\n%s", l.id, s.Seq, history)
		}
	}
}

// checkStore opens the store and counts what each run that ended left in its
// journal and its thread.
func (x *lives) checkStore() {
	s, err := store.Open(x.t.Context(), filepath.Join(x.d.dir, "s"), store.Options{})
	if err != nil {
		x.t.Fatal(err)
	}
	defer s.Close(context.Background())
	owner := runs.Caller{Owner: true}
	rows, err := s.Runs().Journal(owner, "master", 0)
	if err != nil {
		x.t.Fatal(err)
	}
	inJournal, inThread := map[string]int{}, map[string]int{}
	undone := map[string]bool{}
	for _, l := range x.all {
		undone[l.id] = l.heard("undone")
	}
	for _, r := range rows {
		var row struct{ Type, Run string }
		if err := json.Unmarshal(r.JSON, &row); err != nil {
			x.t.Fatal(err)
		}
		if undone[row.Run] {
			x.t.Errorf("%s was rolled back, and the journal has %s", row.Run, r.JSON)
		}
		if row.Type == "terminal" || row.Type == "cancelled" {
			inJournal[row.Run]++
		}
	}
	for n := range livesAtOnce {
		page, err := s.Runs().Thread(owner, fmt.Sprintf("thread-%d", n), 0, 1000)
		if runs.CodeOf(err) == runs.UnknownThread {
			continue
		}
		if err != nil {
			x.t.Fatal(err)
		}
		for _, m := range page.Messages {
			if undone[m.Run] {
				x.t.Errorf("%s was rolled back, and its thread has a message of it", m.Run)
			}
			if m.Status != "" {
				inThread[m.Run]++
			}
		}
	}
	for id, how := range x.final {
		if inThread[id] != 1 || inJournal[id] != 1 && len(rows) < 400 { // else the oldest may have left the ring
			x.t.Errorf("%s, which ended as %s, has %d terminal rows in the journal and %d messages in its thread", id, how, inJournal[id], inThread[id])
		}
		delete(inThread, id)
		delete(inJournal, id)
	}
	if len(inThread)+len(inJournal) > 0 {
		x.t.Errorf("runs that have not ended have rows %v and messages %v of their end", inJournal, inThread)
	}
}
