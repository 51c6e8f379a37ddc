package server

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"durafs/control"
)

// BenchmarkStream is streamed rows of 1 KiB over the socket to the disk of
// TMPDIR, client and daemon in one process, to the last acknowledgement.
func BenchmarkStream(b *testing.B) {
	const bytesMin = 32 << 20
	rows := bytes.NewBuffer(make([]byte, 0, bytesMin+1<<10))
	text := strings.Repeat("some words of it ", 55)
	for i := 0; rows.Len() < bytesMin; i++ {
		fmt.Fprintf(rows, `{"type":"message","time":"2026-01-02T03:04:05Z","n":%d,"text":"%s"}`+"\n", 1_000_000_000+i, text)
	}
	rowBytes := bytes.IndexByte(rows.Bytes(), '\n') + 1
	for _, connections := range []int{1, 16} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			d := serveStore(b)
			c := d.client()
			ids, writers := make([]string, connections), make([]*control.Client, connections)
			for i := range ids {
				s, err := c.Start(b.Context(), control.StartRequest{})
				if err != nil {
					b.Fatal(err)
				}
				ids[i], writers[i] = s.Record.ID, c.WithWriter(s.Writer)
			}
			part := rows.Bytes()[:rows.Len()/rowBytes/connections*rowBytes]
			b.SetBytes(int64(len(part) * connections))
			b.ReportAllocs()
			for b.Loop() {
				var wg sync.WaitGroup
				for i, id := range ids {
					wg.Go(func() {
						if _, err := writers[i].Stream(b.Context(), id, "", bytes.NewReader(part), nil); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}
