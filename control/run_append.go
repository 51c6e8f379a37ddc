package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Log appends one row and returns when it is durable. row is the JSON object's
// own bytes ([]byte, json.RawMessage or string), or a value that marshals to
// one. Rows without a key go one after the other; use LogKeyed from many
// goroutines, or Stream, for throughput.
func (r *Run) Log(ctx context.Context, row any) (Appended, error) {
	b, err := rowBytes(row)
	if err != nil {
		return Appended{}, err
	}
	r.rows.Lock()
	defer r.rows.Unlock()
	for {
		var a Appended
		err := r.steady(ctx, func(ctx context.Context) (err error) {
			a, err = r.c.Append(ctx, r.id, b, "")
			return err
		})
		if errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil {
			var found bool
			if a, found, err = r.find(ctx, b); err == nil && !found {
				continue // it did not happen
			}
		}
		if err == nil {
			r.saw(a.LastSeq)
		}
		return a, err
	}
}

// LogKeyed appends one row whose field key holds an idempotency key of its
// own, so that repeating it is safe.
func (r *Run) LogKeyed(ctx context.Context, row any, key string) (Appended, error) {
	b, err := rowBytes(row)
	if err != nil {
		return Appended{}, err
	}
	var a Appended
	err = r.steady(ctx, func(ctx context.Context) (err error) {
		a, err = r.c.Append(ctx, r.id, b, key)
		return err
	})
	return a, err
}

// rowBytes is a row as it is sent.
func rowBytes(row any) ([]byte, error) {
	switch v := row.(type) {
	case []byte:
		return v, nil
	case json.RawMessage:
		return v, nil
	case string:
		return []byte(v), nil
	}
	b, err := json.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("control: a row that cannot be JSON: %w", err)
	}
	return b, nil
}

// find looks for a row, of which nobody knows whether it was appended, behind
// what was acknowledged. The caller holds r.rows, so at most one row of this
// handle can be there.
func (r *Run) find(ctx context.Context, row []byte) (Appended, bool, error) {
	want := canonicalRow(row)
	var a Appended
	err := r.readBehind(ctx, func(line []byte) error {
		if a.Rows == 0 && sameRow(line, want) {
			seq := RowSeq(line)
			a = Appended{FirstSeq: seq, LastSeq: seq, Rows: 1, Replayed: true}
		}
		return nil
	})
	return a, a.Rows == 1, err
}

// readBehind gives fn the rows of agents behind the last sequence number that
// this handle knows of. It first beats: a daemon that was restarted has then
// settled what is in the log, and the run is this handle's again.
func (r *Run) readBehind(ctx context.Context, fn func(line []byte) error) error {
	if err := r.Beat(ctx, ""); err != nil {
		return err
	}
	l, err := r.c.Log(ctx, r.id, LogQuery{From: r.seen() + 1})
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		line, err := l.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if byStore(line) {
			continue
		}
		if err := fn(line); err != nil {
			return err
		}
	}
}

func (r *Run) seen() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.lastSeq
}

func (r *Run) saw(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.lastSeq = max(r.mu.lastSeq, seq)
}
