package cas

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/klauspost/compress"
	"github.com/klauspost/compress/zstd"
)

const (
	// sampleBytes of a chunk's middle decide how it is compressed: judging the
	// whole chunk would cost more than compressing it.
	sampleBytes = 4 << 10
	// sampleMin is below what base64 scores (0.24), above noise (0.04).
	sampleMin = 0.1
	// decodeSlack is room behind what is decoded, in which a decoder may write
	// what it then writes over: it copies in larger steps, a third quicker.
	decodeSlack = 32
)

// encodeFunc appends the compressed form of src to dst.
type encodeFunc func(dst, src []byte) []byte

// bodyCodec compresses and decompresses bodies. It may be used concurrently.
//
// Only zstd's fastest level is used: what slower ones save in agents' logs is
// 5 %, and the slowest has had errors in the round trip. Because of these, what
// was compressed is decompressed and compared before it is stored.
type bodyCodec struct {
	plain encodeFunc
	// literals compresses literals also where no match was found, which takes
	// base64 from 1.00 to 0.75 but wastes time on noise.
	literals encodeFunc
	dec      *zstd.Decoder
}

func newBodyCodec(fake encodeFunc) (*bodyCodec, error) {
	c := &bodyCodec{plain: fake, literals: fake}
	procs := runtime.GOMAXPROCS(0)
	for _, e := range []struct {
		to  *encodeFunc
		all bool
	}{{&c.plain, false}, {&c.literals, true}} {
		if *e.to != nil {
			continue
		}
		enc, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderConcurrency(procs),
			zstd.WithWindowSize(ChunkBytes),
			zstd.WithEncoderCRC(false), // the record has one, and the id
			zstd.WithSingleSegment(true),
			zstd.WithAllLitEntropyCompression(e.all))
		if err != nil {
			return nil, fmt.Errorf("cas: zstd: %w", err)
		}
		*e.to = func(dst, src []byte) []byte { return enc.EncodeAll(src, dst) }
	}
	var err error
	c.dec, err = zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(procs),
		zstd.WithDecoderMaxMemory(recordBodyMax),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("cas: zstd: %w", err)
	}
	return c, nil
}

func (c *bodyCodec) close() { c.dec.Close() }

// encode appends the compressed form of raw to dst and reports whether that is
// worth storing. scratch has room for a decoded chunk.
func (c *bodyCodec) encode(dst, raw, scratch []byte) ([]byte, bool) {
	sample := raw
	if len(sample) > sampleBytes {
		at := (len(raw) - sampleBytes) / 2
		sample = raw[at : at+sampleBytes]
	}
	enc := c.plain
	if compress.Estimate(sample) > sampleMin {
		enc = c.literals
	}
	start := len(dst)
	dst = enc(dst, raw)
	stored := len(dst) - start
	// Reading raw chunks is quicker, so a saving of less than 1/32 is none.
	if stored <= 0 || stored > len(raw)-len(raw)/32 || stored > recordBodyMax {
		return dst[:start], false
	}
	back, err := c.decode(scratch, dst[start:], len(raw))
	if err != nil || !bytes.Equal(back, raw) {
		return dst[:start], false
	}
	return dst, true
}

// decode decompresses body, which must give exactly n bytes, into buf, which
// must have room for them. It is quicker where that has decodeSlack more.
func (c *bodyCodec) decode(buf, body []byte, n int) ([]byte, error) {
	if cap(buf) < n {
		return nil, fmt.Errorf("buffer of %d bytes for %d", cap(buf), n)
	}
	out, err := c.dec.DecodeAll(body, buf[:0:min(cap(buf), n+decodeSlack)])
	if err != nil {
		return nil, err
	}
	if len(out) != n {
		return nil, fmt.Errorf("decoded to %d bytes, not %d", len(out), n)
	}
	return out, nil
}
