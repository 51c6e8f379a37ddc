package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Stream appends rows as they come out of rows, each one JSON object on a line
// of its own, until it ends, and returns when all are durable. onAck, where it
// is not nil, is called with the daemon's acknowledgements as they arrive; it
// may be slow without slowing the rows. The Ack returned is the last one:
// after an error, what it counts is durable and what came after is not known.
//
// When it returns before rows has ended, one Read of it may still be under way.
// The request is sent once and never repeated; Run.Deliver and Run.Stream go
// on across restarts. It needs a writer token.
func (c *Client) Stream(ctx context.Context, id, key string, rows io.Reader, onAck func(Ack)) (Ack, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // unblocks the sending of rows, if the answer ended first
	k := &call{
		method: http.MethodPost, path: runPath(id, "log"), query: keyQuery(key),
		header:    http.Header{"Content-Type": {TypeNDJSON}},
		body:      func() (io.Reader, error) { return io.NopCloser(rows), nil },
		bodyBytes: -1,
	}
	resp, err := c.send(ctx, k)
	if err != nil {
		return Ack{}, err
	}
	defer resp.Body.Close()
	return readAcks(resp.Body, onAck)
}

// ackLineBytesMax bounds a line of acknowledgements, a problem included.
const ackLineBytesMax = 64 << 10

// readAcks reads acknowledgements up to the last one. An end without it is an
// unknown outcome for what was not acknowledged.
func readAcks(r io.Reader, onAck func(Ack)) (Ack, error) {
	var last Ack
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 4<<10), ackLineBytesMax)
	for sc.Scan() {
		var a Ack
		if err := json.Unmarshal(sc.Bytes(), &a); err != nil {
			return last, fmt.Errorf("control: an acknowledgement that cannot be read: %w", err)
		}
		last = a
		if onAck != nil {
			onAck(a)
		}
		switch {
		case a.Problem != nil:
			a.Problem.Row = a.Row
			return last, a.Problem
		case a.Done:
			return last, nil
		}
	}
	err := sc.Err()
	if err == nil {
		err = errors.New("the answer ended before its last line")
	}
	return last, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
