package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"durafs/control"
)

const requestWorkers = 64

// measureRequests compares appending one row per request, over 64
// connections, with the same requests to a handler that does nothing.
func measureRequests(ctx context.Context, b *bench) (_ []Row, err error) {
	d, err := serveHere(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	floorSocket, stopFloor, err := floorServer(b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopFloor()) }()

	started, err := d.client.Start(ctx, control.StartRequest{Task: "bench"})
	if err != nil {
		return nil, err
	}
	real := requester{clientOn(d.Config().Socket, requestWorkers), started.Record.ID, started.Writer}
	floor := requester{clientOn(floorSocket, requestWorkers), started.Record.ID, started.Writer}
	defer real.CloseIdleConnections()
	defer floor.CloseIdleConnections()

	if _, err := real.rate(ctx, b.roundTime); err != nil {
		return nil, err
	}
	var pairs []pair
	for range rounds {
		f, err := floor.rate(ctx, 2*b.roundTime)
		if err != nil {
			return nil, err
		}
		v, err := real.rate(ctx, 2*b.roundTime)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair{v, f})
	}
	return []Row{row("one request per row, 64 connections: requests/s / empty handler", "/s", 0.35, false, pairs)}, nil
}

type requester struct {
	*http.Client
	id, writer string
}

// rate tells how many requests a second are answered.
func (r requester) rate(ctx context.Context, during time.Duration) (float64, error) {
	var (
		n      atomic.Int64
		mu     sync.Mutex
		failed error
		wg     sync.WaitGroup
	)
	begin := time.Now()
	for range requestWorkers {
		wg.Go(func() {
			for first := true; first || time.Since(begin) < during; first = false {
				if err := r.one(ctx); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = errors.Join(failed, err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(begin).Seconds(), failed
}

var oneRow = benchRow(1)

func (r requester) one(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://durafs/v1/runs/"+r.id+"/log", bytes.NewReader(oneRow))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(control.HeaderWriter, r.writer)
	resp, err := r.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %.200s", resp.Status, body)
	}
	return err
}

// benchRow is a row of about 1 KiB.
func benchRow(n int) []byte {
	text := bytes.Repeat([]byte("all work and no play makes a log a dull file. "), 21)
	return fmt.Appendf(nil, `{"type":"output","n":%d,"text":"%s"}`, 100_000_000+n, text)
}
