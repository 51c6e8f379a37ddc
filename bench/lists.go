package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"durafs/control"
)

// listedThread is a thread of listedRuns runs, which each of the two stores has,
// behind all its other runs.
const (
	listedThread = "listed"
	listedRuns   = 120
	// listedLeaseMS is longer than any measuring takes: those that run go on.
	listedLeaseMS = 24 * 60 * 60 * 1000
	// listPageOf is the size of every page.
	listPageOf = 50
)

// measureLists asks the daemons of two stores for the same pages over HTTP: one
// store has few runs, the other a hundred times as many. The floor is the page of the small
// one: what a page costs must not grow with what is not on it.
func measureLists(ctx context.Context, b *bench) (_ []Row, err error) {
	var sides [2]*listedStore
	for i, n := range []int{b.listedFew, b.listedMany} {
		s, err := b.serveListed(ctx, filepath.Join(b.dir, fmt.Sprint(i)), n)
		if err != nil {
			return nil, err
		}
		defer func() { s.http.CloseIdleConnections(); err = errors.Join(err, s.stop()) }()
		sides[i] = s
	}
	var rows []Row
	for _, page := range []struct{ name, path string }{
		{"runs", "/v1/runs?limit=50"},
		{"runs of a thread", "/v1/runs?limit=50&thread=" + listedThread},
		{"runs in a phase", "/v1/runs?limit=50&phase=running"},
		{"messages of a thread", "/v1/threads/" + listedThread + "?limit=50"},
		{"threads", "/v1/threads?limit=50"},
	} {
		b.progress(page.name)
		var pairs []pair
		for range rounds {
			p, err := pageTimes(ctx, sides, page.path, b.roundTime)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", page.path, err)
			}
			pairs = append(pairs, p)
		}
		name := fmt.Sprintf("a page of %d %s over HTTP, among %d runs / among %d: p50", listPageOf, page.name, b.listedMany, b.listedFew)
		rows = append(rows, row(name, "µs", 1.3, true, pairs))
	}
	return rows, nil
}

// listedStore is the daemon of one of the two stores.
type listedStore struct {
	*served
	http *http.Client
}

// serveListed makes a store of n runs, adds the thread, and serves it.
func (b *bench) serveListed(ctx context.Context, dir string, n int) (*listedStore, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	_, err := Generate(ctx, filepath.Join(dir, "store"), GenerateOptions{
		Runs: n - listedRuns, Rows: n - listedRuns, Labels: true, Interleave: 2048,
		Progress: func(done int) { b.progress(fmt.Sprintf("make a store: %d of %d runs", done, n)) },
	})
	if err != nil {
		return nil, err
	}
	d, err := serveHere(ctx, dir)
	if err != nil {
		return nil, err
	}
	for i := range listedRuns {
		st, err := d.client.Start(ctx, control.StartRequest{
			Task: "be listed", LeaseMS: new(int64(listedLeaseMS)), Labels: map[string]string{"thread": listedThread}, Message: []byte(`{"text":"go on"}`),
		})
		if err == nil && i%2 == 0 { // the others are running
			_, err = d.client.WithWriter(st.Writer).Settle(ctx, st.Record.ID, control.SettleRequest{Status: control.Success, Summary: "done"})
		}
		if err != nil {
			return nil, errors.Join(err, d.stop())
		}
	}
	return &listedStore{d, clientOn(d.Config().Socket, 1)}, nil
}

// pageTimes asks both for a page in turn, for as long as a round takes, and
// tells the median of each.
func pageTimes(ctx context.Context, sides [2]*listedStore, path string, during time.Duration) (pair, error) {
	var took [2][]time.Duration
	var bytes [2]int64
	for begin := time.Now(); len(took[0]) == 0 || time.Since(begin) < during; {
		for i, s := range sides {
			d, n, err := s.page(ctx, path)
			if err != nil {
				return pair{}, err
			}
			took[i], bytes[i] = append(took[i], d), n
		}
		if a, b := bytes[0], bytes[1]; max(a, b) > min(a, b)*11/10 {
			return pair{}, fmt.Errorf("pages of %d and %d bytes cannot be compared", a, b)
		}
	}
	return pair{p50(took[1]), p50(took[0])}, nil
}

// page asks for a page, and tells how long that took and how many bytes it has.
func (s *listedStore) page(ctx context.Context, path string) (took time.Duration, n int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://durafs"+path, nil)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	n, err = io.Copy(io.Discard, resp.Body)
	took = time.Since(begin)
	if err == nil && (resp.StatusCode != http.StatusOK || n < 100) {
		err = fmt.Errorf("%s, %d bytes", resp.Status, n)
	}
	return took, n, err
}
