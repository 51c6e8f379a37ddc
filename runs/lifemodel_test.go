package runs

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"durafs/internal/clock"
	"durafs/internal/vfs"
)

var (
	sequences    = flag.Int("sequences", 400, "how many random lives of runs TestLifeModel drives")
	sequenceFrom = flag.Int("sequence-from", 0, "number of the first")
)

// TestLifeModel drives random lives of runs, of several agents, an owner, a
// dispatcher and the clock, against a model that says in few words what must
// come of each step. After every step code and record are compared, after
// every life the log and what a restart leaves of it.
//
//	go test ./runs -run TestLifeModel -sequences 100000 -v
func TestLifeModel(t *testing.T) {
	const perStore = 100
	steps, took := 0, clock.System.Boot()
	for n := 0; n < *sequences; n += perStore {
		seed := uint64(*sequenceFrom+n) + 1
		steps += livesOf(t, seed, min(perStore, *sequences-n))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d sequences, %d steps, no difference, %s", *sequences, steps, (clock.System.Boot() - took).Round(time.Second))
}

// livesOf lets n lives pass in one store.
func livesOf(t *testing.T, seed uint64, n int) (steps int) {
	dir := fastDir(t)
	defer os.RemoveAll(dir)
	f := clock.NewFake(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	w := &world{t: t, fs: vfs.OS, dir: dir, ledger: new(memLedger), clock: f}
	if seed/100%2 == 1 {
		w.quota.runBytesMax = lifeRunBytesMax
	}
	w.mustOpen()
	defer w.close()
	m := &lifeModel{world: w, clock: f, rand: rand.New(rand.NewPCG(seed, 7)), strained: f.Boot(), ticked: f.Boot()}
	for life := range n {
		m.runs, m.trace = nil, nil
		for range 5 + m.rand.IntN(25) {
			steps++
			if m.step(life); t.Failed() {
				t.Fatalf("life %d:\n%s", life, strings.Join(m.trace, "\n"))
			}
		}
		m.endLife()
		if t.Failed() {
			t.Fatalf("life %d:\n%s", life, strings.Join(m.trace, "\n"))
		}
	}
	return steps
}

// lifeModel is what must be true of the runs of one life.
type lifeModel struct {
	*world
	clock    *clock.Fake
	rand     *rand.Rand
	runs     []*lifeRun
	trace    []string
	strained time.Duration
	ticked   time.Duration
	made     int

	last       error // of a request that got past the table
	wasAdopted bool
}

type lifeRun struct {
	id       string
	writers  []string // tokens by epoch, from 1
	resume   string
	phase    string
	from     string // phase before the dispatch
	revision uint64
	epoch    uint64
	attempt  uint64
	progress uint64
	class    Safety
	open     []*lifeCall
	settled  map[uint64]string
	ids      map[string]uint64
	counts   map[string]uint64
	calls    uint64
	rows     int
	late     uint64
	status   string
	bound    bool
	payloads map[string]string // there, deleted

	lease, heard, window, dispatched time.Duration
	cancel                           *lifeCancel
}

type lifeCall struct {
	call, attempt, epoch uint64
	safety               Safety
	retry                bool
}

type lifeCancel struct {
	asked time.Duration
	tries int
	told  bool
}

func (m *lifeModel) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func (m *lifeModel) now() time.Duration { return m.clock.Boot() }

// step does one thing and compares what comes of it.
func (m *lifeModel) step(life int) {
	if len(m.runs) == 0 || len(m.runs) < 3 && m.rand.IntN(8) == 0 {
		m.start(life)
		return
	}
	switch n := m.rand.IntN(100); {
	case n < 12:
		m.passTime(time.Duration(1+m.rand.IntN(20)) * time.Second)
	case n < 14:
		m.passTime(time.Duration(40+m.rand.IntN(30)) * time.Second)
	case n < 16:
		m.sleep(time.Duration(6+m.rand.IntN(100_000)) * time.Second)
	case n < 18:
		m.clock.JumpWall(time.Duration(m.rand.IntN(17)-8) * time.Hour)
	case n < 19:
		m.restart()
	default:
		m.ask(m.runs[m.rand.IntN(len(m.runs))])
	}
	for _, r := range m.runs {
		m.compare(r)
	}
}

func (m *lifeModel) start(life int) {
	m.made++
	r := &lifeRun{
		id: fmt.Sprintf("exec_%d_%d", life, m.made), phase: "running", revision: 1, epoch: 1, class: ReadOnly,
		settled: map[uint64]string{}, ids: map[string]uint64{}, counts: map[string]uint64{}, payloads: map[string]string{},
		lease: []time.Duration{0, 10 * time.Second, 45 * time.Second}[m.rand.IntN(3)], bound: m.rand.IntN(2) == 0,
	}
	q := StartRequest{ID: r.id, Lease: r.lease, Labels: Labels{"thread": fmt.Sprint(life)}}
	if r.bound {
		q.Binding = &Binding{Provider: "p", Scope: "s"}
	}
	m.note("start %s, lease %s", r.id, r.lease)
	st, err := m.s.Start(ctx, Caller{UID: 7}, q)
	if err != nil {
		m.t.Errorf("start: %v", err)
		return
	}
	r.writers, r.heard = []string{st.Writer}, m.now()
	m.runs = append(m.runs, r)
}

// rules is the manual's table, by phase and event.
var rules = func() map[string]map[string]string {
	table := map[string]map[string]string{}
	lines := strings.Split(strings.TrimSpace(lifeTable), "\n")
	names := strings.Fields(lines[0])[1:]
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		table[f[0]] = map[string]string{}
		for i, cell := range f[1:] {
			table[f[0]][names[i]] = cell
		}
	}
	return table
}()

// refused is the code that the table has for an event, "" where it is taken;
// late whether what came is kept.
func (r *lifeRun) refused(event string) (code Code, late bool) {
	cell := rules[r.phase][event]
	if cell[0] == '+' || cell[0] == '=' {
		return "", false
	}
	if code = Code(cell[1:]); code == "" {
		code = WrongPhase
	}
	return code, cell[0] == '~'
}

// agentAsks sends an agent's request with the present token or a former one,
// and says whether the request got past token and table.
func (m *lifeModel) agentAsks(r *lifeRun, event string, what string, ask func(c Caller) error) (passed bool) {
	epoch := r.epoch
	if m.rand.IntN(10) == 0 {
		epoch = 1 + uint64(m.rand.IntN(int(r.epoch)))
	}
	token := r.writers[epoch-1]
	if token == "" { // of an epoch that began with a pause or a dispatch
		token = m.s.token(uint32(m.ref(r.id)), epoch, purposeWriter)
	}
	err := ask(Caller{UID: 7, Writer: token})
	m.note("%s %s in epoch %d of %d, %s: %v", what, r.id, epoch, r.epoch, r.phase, err)
	writes := event != "beat" && event != "attach" && event != "rollback"
	if epoch < r.epoch {
		m.want(what, err, StaleWriter)
		if writes {
			r.late++
		}
		return false
	}
	if active(r.phase) {
		r.heard = m.now()
	}
	if code, late := r.refused(event); code != "" {
		m.want(what, err, code)
		if late {
			r.late++
		}
		return false
	}
	m.last = err
	return true
}

func active(phase string) bool { return phase == "running" || phase == "cancel-requested" }

func (m *lifeModel) want(what string, err error, code Code) {
	if CodeOf(err) != code || (err == nil) != (code == "") {
		m.t.Errorf("%s: %v, want %q", what, err, code)
	}
}

// ask lets someone ask something of a run.
func (m *lifeModel) ask(r *lifeRun) {
	asks := []func(*lifeRun){
		m.beat, m.beat, m.append, m.append, m.claim, m.claim, m.claim, m.outcome, m.outcome, m.outcome,
		m.put, m.put, m.deletes, m.settle, m.again, m.pause, m.attach, m.attach, m.cancelIt, m.ack, m.prepareIt, m.prepareIt, m.prepareIt, m.activate, m.activate, m.activate, m.fail,
	}
	asks[m.rand.IntN(len(asks))](r)
}

func (m *lifeModel) beat(r *lifeRun) {
	if m.agentAsks(r, "beat", "beat", func(c Caller) error { _, err := m.s.Beat(ctx, c, r.id, ""); return err }) {
		m.want("beat", m.last, "")
		if r.cancel != nil {
			r.cancel.told = true
		}
	}
}

func (m *lifeModel) append(r *lifeRun) {
	full := m.full(r, lineBytes([]byte(`{"x":1}`), 0, m.info(r.id).LastSeq+1))
	if m.agentAsks(r, "write", "row", func(c Caller) error {
		_, err := m.s.Append(ctx, c, r.id, rowsOf(`{"x":1}`), "")
		return err
	}) {
		if m.want("row", m.last, full); full == "" {
			r.rows++
		}
	}
}

func (m *lifeModel) settle(r *lifeRun) {
	status := []Status{Success, Failure}[m.rand.IntN(2)]
	if !m.agentAsks(r, "settle", "settle "+string(status), func(c Caller) error {
		_, err := m.s.Settle(ctx, c, r.id, SettleRequest{Status: status, Summary: "x"})
		return err
	}) {
		return
	}
	switch {
	case r.phase == "running":
		m.want("settle", m.last, "")
		r.over("terminal", string(status), 2)
	case r.status == string(status):
		m.want("settle", m.last, "")
	default:
		m.want("settle", m.last, SettleConflict)
	}
}

// over ends a run.
func (r *lifeRun) over(phase, status string, revisions uint64) {
	for _, c := range slices.Clone(r.open) {
		r.close(c.call, "unknown")
	}
	r.phase, r.status, r.cancel, r.window, r.dispatched = phase, status, nil, 0, 0
	r.revision += revisions
}

func (m *lifeModel) pause(r *lifeRun) {
	scope := []string{"s", "t"}[m.rand.IntN(2)]
	if !m.agentAsks(r, "pause", "pause", func(c Caller) error {
		_, _, err := m.s.Pause(ctx, c, r.id, PauseRequest{Reason: ForPermission, Binding: &Binding{Provider: "p", Scope: scope}})
		return err
	}) {
		return
	}
	switch {
	case !r.bound || scope != "s":
		m.want("pause", m.last, ScopeMismatch)
	case slices.ContainsFunc(r.open, func(c *lifeCall) bool { return c.safety != ReadOnly && c.safety != Idempotent }):
		m.want("pause", m.last, CallOpen)
	default:
		m.want("pause", m.last, "")
		r.phase = "paused-permission"
		r.nextEpoch("")
		r.revision++
	}
}

func (r *lifeRun) nextEpoch(token string) {
	r.epoch++
	r.writers = append(r.writers, token)
}

func (m *lifeModel) attach(r *lifeRun) {
	calls := map[uint64]string{}
	for _, c := range r.open {
		calls[c.call] = []string{"running", "ended"}[m.rand.IntN(2)]
	}
	wrong := m.rand.IntN(5) == 0
	if wrong {
		calls[99] = "running"
	}
	if !m.agentAsks(r, "attach", "attach", func(c Caller) error {
		_, err := m.s.Attach(ctx, c, r.id, AttachRequest{Calls: calls})
		return err
	}) {
		return
	}
	if wrong {
		m.want("attach", m.last, UnaccountedCalls)
		return
	}
	m.want("attach", m.last, "")
	r.phase, r.window, r.heard = "running", 0, m.now()
	r.revision++
}

func (m *lifeModel) cancelIt(r *lifeRun) {
	if m.rand.IntN(2) == 0 {
		return // it would end too many
	}
	_, err := m.s.Cancel(ctx, owner, r.id, CancelRequest{})
	m.note("cancel %s, %s: %v", r.id, r.phase, err)
	if code, _ := r.refused("cancel"); code != "" {
		m.want("cancel", err, code)
		return
	}
	m.want("cancel", err, "")
	if r.phase == "running" {
		r.phase, r.cancel = "cancel-requested", &lifeCancel{asked: m.now(), tries: 1}
		r.revision++
		return
	}
	r.over("cancelled", AbortNoListener, 3)
}

func (m *lifeModel) ack(r *lifeRun) {
	if !m.agentAsks(r, "beat", "acknowledge", func(c Caller) error { _, _, err := m.s.AckAbort(ctx, c, r.id, AbortExited); return err }) {
		return
	}
	if r.phase != "cancel-requested" {
		m.want("acknowledge", m.last, WrongPhase)
		return
	}
	m.want("acknowledge", m.last, "")
	r.over("cancelled", AbortExited, 2)
}

func (m *lifeModel) prepareIt(r *lifeRun) {
	q := PrepareRequest{Force: m.rand.IntN(3) == 0}
	decided := m.rand.IntN(4) > 0
	for _, c := range r.open {
		switch m.rand.IntN(2) {
		case 0:
			q.Retry = append(q.Retry, c.call)
		default:
			q.Close = append(q.Close, c.call)
		}
	}
	if !decided {
		q.Retry, q.Close = nil, nil
	}
	if m.rand.IntN(2) == 0 && r.bound {
		q.Binding = &Binding{Provider: "p", Scope: "s"}
	}
	p, err := m.prepare(r.id, q)
	m.note("prepare %s %+v, %s: %v", r.id, q, r.phase, err)
	code, _ := r.refused("prepare")
	switch {
	case code != "":
	case r.phase == "paused-side-effect-uncertain" && !decided && len(r.open) > 0:
		code = UnaccountedCalls
	case r.window > m.now() && !q.Force:
		code = AttachWindow
	case r.phase == "paused-provider-change" && q.Binding == nil:
		code = BindingMismatch
	case r.phase == "paused-permission":
		code = PermissionMissing // nobody grants it in this model
	}
	m.want("prepare", err, code)
	if code != "" {
		return
	}
	for _, call := range q.Retry {
		r.openCall(call).retry = true
	}
	for _, call := range q.Close {
		r.close(call, "unknown")
	}
	r.from, r.phase, r.window, r.dispatched, r.resume = r.phase, "resume-dispatching", 0, m.now(), p.Token
	r.attempt++
	r.revision++
	r.nextEpoch("")
}

func (m *lifeModel) activate(r *lifeRun) {
	if r.resume == "" {
		return
	}
	q := ActivateRequest{}
	other := r.bound && m.rand.IntN(4) == 0
	if r.bound {
		q.Binding = &Binding{Provider: "p", Scope: "s"}
	}
	if other {
		q.Binding = &Binding{Provider: "q"}
	}
	got, err := m.s.Activate(ctx, Caller{UID: 7, Resume: r.resume}, r.id, q)
	m.note("activate %s, %s: %v", r.id, r.phase, err)
	valid := m.s.epochFor(uint32(m.ref(r.id)), r.resume, r.epoch, purposeResume)
	switch code, _ := r.refused("activate"); {
	case valid < r.epoch:
		m.want("activate", err, StaleWriter)
	case code != "":
		m.want("activate", err, code)
	case other:
		m.want("activate", err, BindingMismatch)
		r.phase, r.dispatched = "paused-provider-change", 0
		r.attempt--
		r.revision++
	case r.bound:
		m.want("activate", err, PermissionMissing)
		r.phase, r.dispatched = "paused-permission", 0
		r.attempt--
		r.revision++
	default:
		m.want("activate", err, "")
		r.phase, r.dispatched, r.heard, r.writers[r.epoch-1] = "running", 0, m.now(), got.Writer
		r.revision++
	}
}

func (m *lifeModel) fail(r *lifeRun) {
	_, _, err := m.s.FailDispatch(ctx, owner, r.id, FailRequest{})
	m.note("fail %s, %s: %v", r.id, r.phase, err)
	code, _ := r.refused("fail")
	if m.want("fail", err, code); code == "" {
		r.undispatched()
	}
}

func (r *lifeRun) undispatched() {
	if r.attempt >= 3 {
		r.over("terminal", "resume-exhausted", 2)
		return
	}
	r.phase, r.dispatched = r.from, 0
	r.revision++
}

// lost is what becomes of a running run whose agent is lost.
func (r *lifeRun) lost(now time.Duration) {
	if r.attempt >= 3 {
		r.over("terminal", "resume-exhausted", 2)
		return
	}
	r.phase = "paused-interruption"
	if r.progress > 0 && (r.class == Mutating || r.class == UnknownSafety) {
		r.phase = "paused-side-effect-uncertain"
	}
	r.revision++
	r.openWindow(now)
}

func (r *lifeRun) openWindow(now time.Duration) {
	r.window = now + r.lease
	if r.lease == 0 {
		r.window = now + 45*time.Second
	}
}
