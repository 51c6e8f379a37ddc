package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"durafs/control"
)

// measureStream compares streaming rows over the socket with writing the same
// bytes to a file and syncing it once.
func measureStream(ctx context.Context, b *bench) (_ []Row, err error) {
	d, err := serveHere(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()

	var all []Row
	for _, connections := range []int{1, 16} {
		block := rowsOf(int(b.streamBytes) / connections)
		if _, err := d.stream(ctx, connections, block); err != nil { // warm
			return nil, err
		}
		var pairs []pair
		for range rounds {
			floor, err := streamFloor(b.dir, block[:min(1<<20, len(block))], b.streamBytes)
			if err != nil {
				return nil, err
			}
			v, err := d.stream(ctx, connections, block)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, pair{v, floor})
		}
		all = append(all, row(fmt.Sprintf("streamed NDJSON, %d connections", connections), "MB/s", 0.20, false, pairs))
	}
	return all, nil
}

// stream sends rows to a run of its own over each connection, and tells MB/s
// of them all, to the last acknowledgement.
func (d *served) stream(ctx context.Context, connections int, rows []byte) (float64, error) {
	started := make([]control.Started, connections)
	for i := range started {
		var err error
		if started[i], err = d.client.Start(ctx, control.StartRequest{Task: "bench"}); err != nil {
			return 0, err
		}
	}
	errs := make([]error, connections)
	var wg sync.WaitGroup
	begin := time.Now()
	for i, s := range started {
		wg.Go(func() {
			_, errs[i] = d.client.WithWriter(s.Writer).Stream(ctx, s.Record.ID, "", bytes.NewReader(rows), nil)
		})
	}
	wg.Wait()
	return mbPerSecond(int64(len(rows)*connections), time.Since(begin)), errors.Join(errs...)
}

// rowsOf is about n bytes of rows.
func rowsOf(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		b.Write(benchRow(i))
		b.WriteByte('\n')
	}
	return b.Bytes()
}
