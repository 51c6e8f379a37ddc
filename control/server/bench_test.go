package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkStream is streamed rows of 1 KiB over the socket to the disk of
// TMPDIR, client and daemon in one process, to the last acknowledgement.
func BenchmarkStream(b *testing.B) {
	const bytesMin = 32 << 20
	rows := bytes.NewBuffer(make([]byte, 0, bytesMin+1<<10))
	text := strings.Repeat("some words of it ", 55)
	for i := 0; rows.Len() < bytesMin; i++ {
		fmt.Fprintf(rows, `{"type":"message","time":"2026-01-02T03:04:05Z","n":%d,"text":"%s"}`+"\n", i, text)
	}
	d := serveStore(b)
	id, token := d.run()
	c := d.client().WithWriter(token)
	b.SetBytes(int64(rows.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Stream(b.Context(), id, "", bytes.NewReader(rows.Bytes()), nil); err != nil {
			b.Fatal(err)
		}
	}
}
