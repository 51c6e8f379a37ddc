package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"time"

	"durafs/store"
)

// measurePayloadIn compares putting a large payload into the chunk store with
// writing the same bytes to a file and syncing it once. A payload is larger
// than a pack, so that sealing is part of it.
func measurePayloadIn(ctx context.Context, b *bench) ([]Row, error) {
	s, err := store.Open(ctx, filepath.Join(b.dir, "store"), store.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close(context.WithoutCancel(ctx))

	var all []Row
	for _, c := range []struct {
		name  string
		goal  float64
		bytes int64
		block func(seed uint64) []byte
	}{
		{"incompressible", 0.60, b.payloadBytes, noise},
		{"agent text", 0.20, b.payloadBytes / 2, agentText},
	} {
		var pairs []pair
		for round := range uint64(rounds) {
			block := c.block(round)
			floor, err := streamFloor(b.dir, block, c.bytes)
			if err != nil {
				return nil, err
			}
			begin := time.Now()
			if _, err := s.Chunks().Put(ctx, repeated(block, c.bytes)); err != nil {
				return nil, err
			}
			pairs = append(pairs, pair{mbPerSecond(c.bytes, time.Since(begin)), floor})
		}
		all = append(all, row(fmt.Sprintf("payload of %s in, %s", bytesText(c.bytes), c.name), "MB/s", c.goal, false, pairs))
	}
	return all, nil
}

// blockBytes is the length after which a measured payload changes: each
// repetition is made different, or deduplication would be measured.
const blockBytes = 1 << 20

// noise is a block that no codec shrinks.
func noise(seed uint64) []byte {
	b := make([]byte, blockBytes)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// agentText is a block like the logs of agents: JSON lines with words, paths,
// numbers and escapes, which zstd shrinks to about a quarter.
func agentText(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for line := 0; b.Len() < blockBytes; line++ {
		fmt.Fprintf(&b, `{"type":"tool_result","time":"2026-01-02T03:04:%02dZ","id":"%016x","text":"`, line%60, r.Uint64())
		for range 40 + r.IntN(120) {
			fmt.Fprintf(&b, "%s %d\\n", agentWords[r.IntN(len(agentWords))], r.IntN(100_000))
		}
		b.WriteString("\"}\n")
	}
	return b.Bytes()[:blockBytes]
}

var agentWords = []string{
	"function", "return", "error", "if err != nil", "the", "file", "tests", "pass", "read", "write",
	"src/main.go", "internal/server/handler.go", "TODO", "expected", "got", "assistant", "user", "tool",
}

// repeated reads n bytes: block again and again, a few bytes of each 4 KiB
// different every time.
func repeated(block []byte, n int64) io.Reader {
	return &repeater{block: bytes.Clone(block), left: n, at: len(block)}
}

type repeater struct {
	block []byte
	left  int64
	at    int
	round uint64
}

func (r *repeater) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if r.at == len(r.block) {
		r.at, r.round = 0, r.round+1
		for i := 0; i+8 <= len(r.block); i += 4096 {
			copy(r.block[i:], fmt.Sprintf("%08d", r.round))
		}
	}
	n := copy(p[:min(int64(len(p)), r.left)], r.block[r.at:])
	r.at += n
	r.left -= int64(n)
	return n, nil
}
