package bench

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"durafs/runs"
	"durafs/store"
)

// GenerateOptions say what a generated store holds. Zero fields have defaults,
// but for Runs.
type GenerateOptions struct {
	Runs int
	// Rows are of all runs together; each run has as many as the others, or
	// one more.
	Rows int
	// RowBytes is the length of a row, at least rowBytesMin; 0: 100.
	RowBytes int
	// GroupRows is how many rows of a run come in one request; 0: 10.
	GroupRows int
	// Interleave is how many runs are written at the same time; 0: 256. The
	// rows of so many lie mixed in the log.
	Interleave int
	// PayloadBytes is the size of each run's answer; 0: it has none.
	PayloadBytes int
	// Labels gives each run a thread and two labels more.
	Labels bool
	// Seed decides ids, texts and outcomes; times and tokens are the store's.
	Seed uint64
	// Progress is told now and then how many runs are done; nil: nobody is.
	Progress func(done int)
}

const (
	generateRowBytes   = 100
	generateGroupRows  = 10
	generateInterleave = 256
	rowBytesMin        = 64
	progressEvery      = 250 * time.Millisecond
)

func (o GenerateOptions) withDefaults() (GenerateOptions, error) {
	if o.RowBytes == 0 {
		o.RowBytes = generateRowBytes
	}
	if o.GroupRows == 0 {
		o.GroupRows = generateGroupRows
	}
	if o.Interleave == 0 {
		o.Interleave = generateInterleave
	}
	if o.Progress == nil {
		o.Progress = func(int) {}
	}
	switch {
	case o.Runs < 1, o.Rows < 0, o.PayloadBytes < 0, o.GroupRows < 1, o.Interleave < 1:
		return o, errors.New("bench: a generated store has at least one run, and no negative number of anything")
	case o.RowBytes < rowBytesMin, o.RowBytes > runs.RowTextBytesMax:
		return o, fmt.Errorf("bench: a generated row has %d to %d bytes", rowBytesMin, runs.RowTextBytesMax)
	}
	return o, nil
}

// Generated tells what was made.
type Generated struct {
	Runs int   `json:"runs"`
	Rows int64 `json:"rows"`
	// RowBytes are those of all rows, as they were given to the store.
	RowBytes     int64 `json:"row_bytes"`
	PayloadBytes int64 `json:"payload_bytes"`
}

// Generate makes a store in dir, which must not have one, and closes it. Every
// run is started, written and settled by the store's own methods, and every
// byte is durable as any other would be; what makes it quick is that many runs
// are written at once, and so share their barriers.
func Generate(ctx context.Context, dir string, o GenerateOptions) (Generated, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Generated{}, err
	}
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		return Generated{}, err
	}
	if !s.Recovery().Created {
		err = errors.New("bench: there is a store already in " + dir)
		return Generated{}, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	made, err := fill(ctx, s.Runs(), o)
	return made, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

// fill makes the runs of o in a store that is open.
func fill(ctx context.Context, s *runs.Store, o GenerateOptions) (Generated, error) {
	g := &generator{GenerateOptions: o, store: s, words: generatedText(o.Seed)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range min(o.Interleave, o.Runs) {
		wg.Go(func() {
			if err := g.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	g.watch(ended)
	made := Generated{
		Runs: int(g.done.Load()), Rows: g.rows.Load(), RowBytes: g.rows.Load() * int64(o.RowBytes),
		PayloadBytes: g.done.Load() * int64(o.PayloadBytes),
	}
	return made, context.Cause(ctx)
}

type generator struct {
	GenerateOptions
	store *runs.Store
	words []byte

	next, done, rows atomic.Int64
}

// watch tells of the progress until ended is closed.
func (g *generator) watch(ended chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			g.Progress(int(g.done.Load()))
		}
	}
}

// work makes one run after the other until there are enough.
func (g *generator) work(ctx context.Context) error {
	w := worker{generator: g, lines: make([]runs.Row, g.GroupRows)}
	for {
		i := int(g.next.Add(1)) - 1
		if i >= g.Runs {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.run(ctx, i); err != nil {
			return fmt.Errorf("bench: run %d: %w", i, err)
		}
		g.done.Add(1)
	}
}

// worker makes one run at a time; its rows' memory is used again.
type worker struct {
	*generator
	lines []runs.Row
}

func (w *worker) run(ctx context.Context, i int) error {
	r := newGeneratedRand(w.Seed, i)
	req := runs.StartRequest{ID: generatedID(r), Task: "generated"}
	if w.Labels {
		req.Labels = runs.Labels{"thread": "thread-" + strconv.Itoa(i%1000), "task_id": strconv.Itoa(i), "schedule": "hourly"}
	}
	started, err := w.store.Start(ctx, runs.Caller{}, req)
	if err != nil {
		return err
	}
	c := runs.Caller{Writer: started.Writer}
	for first, n := 0, w.rowsOf(i); first < n; first += w.GroupRows {
		rows := w.lines[:min(w.GroupRows, n-first)]
		for k := range rows {
			rows[k].JSON = w.appendRow(rows[k].JSON[:0], r, first+k)
		}
		if _, err := w.store.Append(ctx, c, req.ID, rows, ""); err != nil {
			return err
		}
		w.rows.Add(int64(len(rows)))
	}
	end := runs.SettleRequest{Status: runs.Success, Summary: "done"}
	if r.IntN(10) == 0 {
		end.Status, end.Summary = runs.Failure, "failed"
	}
	if w.PayloadBytes > 0 {
		end.Payload = bytes.NewReader(w.text(r, w.PayloadBytes))
	}
	_, err = w.store.Settle(ctx, c, req.ID, end)
	return err
}

// rowsOf is how many rows the run i has.
func (g *generator) rowsOf(i int) int {
	n := g.Rows / g.Runs
	if i < g.Rows%g.Runs {
		n++
	}
	return n
}

// appendRow is a row of RowBytes.
func (g *generator) appendRow(b []byte, r *rand.Rand, n int) []byte {
	b = append(b, `{"type":"output","n":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, `,"text":"`...)
	b = append(b, g.text(r, g.RowBytes-len(b)-len(`"}`))...)
	return append(b, `"}`...)
}

// text is n bytes of words.
func (g *generator) text(r *rand.Rand, n int) []byte {
	if n <= len(g.words)/2 {
		at := r.IntN(len(g.words) - n)
		return g.words[at : at+n]
	}
	var b []byte
	for len(b) < n {
		b = append(b, g.words[r.IntN(len(g.words)/2):]...)
	}
	return b[:n]
}

// generatedText is words that need no escape in JSON.
func generatedText(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	var b []byte
	for len(b) < 1<<20 {
		b = append(b, agentWords[r.IntN(len(agentWords))]...)
		b = append(b, ' ')
		b = strconv.AppendUint(b, uint64(r.IntN(100_000)), 10)
		b = append(b, ' ')
	}
	return b
}

// generatedID is a random UUID.
func generatedID(r *rand.Rand) string {
	var u [16]byte
	for i := range u {
		u[i] = byte(r.Uint32())
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// newGeneratedRand decides everything of the run i.
func newGeneratedRand(seed uint64, i int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i))) }
