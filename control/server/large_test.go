package server

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"durafs/control"
)

// TestLargeRowsTogether: rows that are each within their bound have one
// together as well; who finds no room is told to come again, and what is done
// gives its room back.
func TestLargeRowsTogether(t *testing.T) {
	d := serve(t, newFake(), func(o *Options) { o.Limits.largeBytesMax = 2 << 20 })
	id, token := d.run()
	row := `{"a":"` + strings.Repeat("x", 900<<10) + `"}`
	for _, contentType := range []string{typeJSON, typeNDJSON} {
		slow := d.dial()
		fmt.Fprintf(slow, "POST /v1/runs/%s/log HTTP/1.1\r\nHost: d\r\n%s: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			id, control.HeaderWriter, token, contentType, len(row), row[:len(row)-1])
		for d.s.large.used.Load() < 700<<10 { // all of it is there
			runtime.Gosched()
		}
		for _, other := range []string{typeJSON, typeNDJSON} {
			a := d.do("POST", "/v1/runs/"+id+"/log", row+strings.Repeat(" ", 1<<20), "Content-Type", other, control.HeaderWriter, token)
			if a.status != 503 || a.code() != control.CodeBusy || !a.p.Retryable || a.header.Get("Retry-After") == "" {
				t.Errorf("%s beside %s: %d %.300s", other, contentType, a.status, a.body)
			}
		}
		if a := d.do("POST", "/v1/runs/"+id+"/log", `{"small":1}`, "Content-Type", typeJSON, control.HeaderWriter, token); a.status != 200 {
			t.Errorf("a small row: %d %s", a.status, a.body)
		}
		io.WriteString(slow, row[len(row)-1:])
		if a := readAnswer(t, slow); a.status != 200 {
			t.Errorf("%s: %d %s", contentType, a.status, a.body)
		}
		slow.Close()
		for d.s.Stats().OpenRequests > 0 {
			runtime.Gosched()
		}
		if got := d.s.large.used.Load(); got != 0 {
			t.Errorf("%d bytes are still held", got)
		}
	}
	if n := d.f.runs[id].rec.Log.LastSeq; n != 4 {
		t.Errorf("%d rows", n)
	}
}
