package blockdev_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"

	"durafs/runs"
	"durafs/store"
)

// message is what a worker tells the test. The test answers each with a line:
// what is acknowledged is noted on the device before the agent goes on.
type message struct {
	Op   string // one of the ops below
	Keys []string
	Text string
}

const (
	opTried = "tried" // before it was asked for
	opAcked = "acked"
	opShown = "shown" // all that the store shows
	opDone  = "done"  // the script is at its end, or the store did not open
)

// order is what a worker is told to do.
type order struct {
	Dir string
	// Name is a part of what it makes, so that no two make the same.
	Name  string
	Steps int
	// Tried are the keys of earlier lives.
	Tried []string
	// Plant is the number of a fault to plant; see TestMutants.
	Plant int
}

// plant plants a fault, in a build that has any.
var plant = func(int) {}

// agents work beside each other in a worker.
const agents = 2

// storeOptions make files small, so that there is much to roll and to seal.
func storeOptions() store.Options {
	return store.Options{SegmentBytesMax: 64 << 10, PackBytesMax: 256 << 10, BeatWait: 1, BallastBytes: 64 << 10}
}

// worker opens a store, tells what it shows, and lets agents work on it. Its end
// is to be killed.
func worker(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	plant(o.Plant)
	w := &teller{out: json.NewEncoder(os.Stdout), in: os.Stdin}
	s, err := store.Open(context.Background(), o.Dir, storeOptions())
	if err != nil {
		return w.last(fmt.Sprintf("open: %v", err))
	}
	there, err := look(s, o.Tried)
	if err != nil {
		return w.last(fmt.Sprintf("look: %v", err))
	}
	w.tell(message{Op: opShown, Keys: there})
	var all sync.WaitGroup
	for i := range agents {
		a := &agent{w: w, s: s, name: fmt.Sprintf("%s-%d", o.Name, i)}
		all.Go(func() { a.work(o.Steps) })
	}
	all.Wait()
	text = ""
	if err := s.Healthy(); err != nil {
		text = err.Error()
	}
	return w.last(text)
}

// teller tells the test what happens.
type teller struct {
	mu  sync.Mutex
	out *json.Encoder
	in  io.Reader
}

func (w *teller) tell(m message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Encode(m); err != nil {
		os.Exit(1)
	}
	if n, err := w.in.Read(make([]byte, 1)); n != 1 {
		fmt.Fprintln(os.Stderr, "the test is gone:", err)
		os.Exit(1)
	}
}

// last tells that the script is over, and waits for the end.
func (w *teller) last(text string) error {
	w.tell(message{Op: opDone, Text: text})
	_, err := io.Copy(io.Discard, w.in)
	return err
}

// agent leads one run after the other.
type agent struct {
	w    *teller
	s    *store.Store
	name string

	runs   int
	run    string
	caller runs.Caller
}

// does asks for what key says.
func (a *agent) does(key string, ask func() error) {
	a.w.tell(message{Op: opTried, Keys: []string{key}})
	if ask() == nil {
		a.w.tell(message{Op: opAcked, Keys: []string{key}})
	}
}

// stepsPerRun is how long a run is.
const stepsPerRun = 14

func (a *agent) work(steps int) {
	ctx := context.Background()
	for i := range steps {
		n := i % stepsPerRun
		switch {
		case n == 0:
			a.start(ctx)
		case n == stepsPerRun-1:
			a.does(keyOf("end", a.run, ""), func() error {
				_, err := a.s.Runs().Settle(ctx, a.caller, a.run, runs.SettleRequest{Status: runs.Success, Summary: "done"})
				return err
			})
		case n%3 == 2:
			name := fmt.Sprintf("p%d.%d", n, []int{300, 18 << 10, 70 << 10}[n/3%3])
			a.does(keyOf("put", a.run, name), func() error {
				_, _, err := a.s.Runs().Put(ctx, a.caller, a.run, name, runs.SourceNamed, "", bytes.NewReader(content(a.run, name)))
				return err
			})
		default:
			name := fmt.Sprint(n)
			a.does(keyOf("row", a.run, name), func() error {
				_, err := a.s.Runs().Append(ctx, a.caller, a.run, []runs.Row{{JSON: []byte(rowOf(a.run, name))}}, "")
				return err
			})
		}
	}
}

func (a *agent) start(ctx context.Context) {
	a.runs++
	a.run = fmt.Sprintf("exec_%s-%d", a.name, a.runs)
	a.does(keyOf("start", a.run, ""), func() error {
		st, err := a.s.Runs().Start(ctx, runs.Caller{Owner: true}, runs.StartRequest{ID: a.run, Task: "live"})
		a.caller = runs.Caller{Writer: st.Writer}
		return err
	})
}

// A key names one thing that was asked for: what, of which run, and its name.
func keyOf(what, run, name string) string { return what + " " + run + " " + name }

func ofKey(key string) (what, run, name string) {
	part := strings.SplitN(key, " ", 3)
	return part[0], part[1], part[2]
}

// rowMark and payloadMark stand in what is written for rows and payloads.
const (
	rowMark     = `"what":"a row of `
	payloadMark = "a payload of "
)

func rowOf(run, name string) string {
	size := 200 * (1 + int(name[0]%4))
	if name[0]%2 == 1 {
		size += 10 << 10 // several blocks, of which some lie between others
	}
	return fmt.Sprintf(`{%s%s, number %s","pad":"%s"}`, rowMark, run, name, strings.Repeat("x", size))
}

// content is that of a payload, of the size in its name: a text and noise.
func content(run, name string) []byte {
	if b, ok := contents.Load(run + name); ok {
		return b.([]byte)
	}
	_, after, _ := strings.Cut(name, ".")
	var size int
	fmt.Sscan(after, &size)
	head := payloadMark + run + ", " + name + "\n"
	b := make([]byte, size)
	var key [32]byte
	copy(key[:], run+name)
	rand.NewChaCha8(key).Read(b[copy(b, head):])
	contents.Store(run+name, b)
	return b
}

// contents are made once: a judge asks for them again and again.
var contents sync.Map

// look lists what a store shows of what was tried, and nothing else may be in
// it.
func look(s *store.Store, tried []string) (there []string, err error) {
	known := map[string]bool{}
	var list []string
	for _, key := range tried {
		if what, run, _ := ofKey(key); what == "start" && !known[run] {
			known[run] = true
			list = append(list, run)
		}
	}
	for ref := runs.Ref(1); ref <= s.Runs().Newest(); ref++ {
		if r, ok := s.Runs().Info(ref); ok && !known[r.ID] {
			return nil, fmt.Errorf("there is a run %s, which nobody started", r.ID)
		}
	}
	for _, run := range list {
		ref, ok := s.Runs().Lookup(run)
		if !ok {
			continue
		}
		of, err := lookAt(s, ref, run, tried)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", run, err)
		}
		there = append(there, of...)
	}
	return there, nil
}

func lookAt(s *store.Store, ref runs.Ref, run string, tried []string) (there []string, err error) {
	there = append(there, keyOf("start", run, ""))
	info, _ := s.Runs().Info(ref)
	log := make([]byte, info.LogBytes)
	if n, err := s.Runs().ReadLogAt(ref, log, 0); n != len(log) || err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("log: %d of %d bytes: %w", n, len(log), err)
	}
	var rows []string
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, `"by":"store"`) {
			rows = append(rows, line)
		}
	}
	for _, key := range tried {
		what, of, name := ofKey(key)
		if of != run {
			continue
		}
		is := false
		switch what {
		case "row":
			if is = len(rows) > 0 && strings.Contains(rows[0], rowOf(run, name)[1:]); is {
				rows = rows[1:]
			}
		case "put":
			is, err = hasPayload(s, ref, run, name)
		case "end":
			var rec *runs.Record
			if rec, err = s.Runs().Record(ref); err == nil {
				is = rec.Terminal != nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if is {
			there = append(there, key)
		}
	}
	if len(rows) > 0 {
		return nil, fmt.Errorf("a row nobody gave, or out of order: %.100s", rows[0])
	}
	return there, nil
}

func hasPayload(s *store.Store, ref runs.Ref, run, name string) (bool, error) {
	r, err := s.Runs().OpenPayload(ref, name)
	if runs.CodeOf(err) == runs.UnknownPayload {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	got := make([]byte, r.Size())
	if n, err := r.ReadAt(got, 0); n != len(got) || err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("%d of %d bytes: %w", n, len(got), err)
	}
	if !bytes.Equal(got, content(run, name)) {
		return false, &wrongBytes{len(got)}
	}
	return true, nil
}

// wrongBytes is a payload that nobody gave.
type wrongBytes struct{ n int }

func (e *wrongBytes) Error() string { return fmt.Sprintf("%d bytes that nobody gave", e.n) }
