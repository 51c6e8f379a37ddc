package daemon_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"durafs/control"
	"durafs/internal/daemon"
	"durafs/projection"
	"durafs/store"
)

// projectors are what a client can send behind an outcome's line.
type projectors struct {
	t     *testing.T
	c     *control.Client // with the run's writer token
	sock  string
	id    string
	token string
}

const (
	projectorWait  = 300 * time.Millisecond
	projectorBound = 10 * time.Second // of a busy machine
	sentOutcome    = `{"status":"ok"}`
)

// TestBadProjectors: whatever a projector does, the outcome is committed in
// time with the sentinel, its tool cannot run again, and no byte is left that
// nothing refers to.
func TestBadProjectors(t *testing.T) {
	dir := shortDir(t)
	d, stop := serve(t, daemon.Config{Store: filepath.Join(dir, "s"), ProjectionTimeout: projectorWait})
	owner := &control.Client{Socket: d.Config().Socket}
	st, err := owner.Start(t.Context(), control.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p := &projectors{t: t, c: owner.WithWriter(st.Writer), sock: d.Config().Socket, id: st.Record.ID, token: st.Writer}
	if _, err := p.c.Put(t.Context(), p.id, "shot", "image/jpeg", strings.NewReader(string(jpegOf(100_000)))); err != nil {
		t.Fatal(err)
	}
	good := image("image/jpeg", jpegOf(200_000))
	for name, second := range map[string]func(net.Conn){
		"hangs":              func(net.Conn) {},
		"half a line":        sends(`{"v":1,"status":"ok","par`),
		"half, disconnects":  func(c net.Conn) { sends(`{"v":1,"sta`)(c); c.Close() },
		"disconnects":        func(c net.Conn) { c.Close() },
		"a gibibyte":         sendsGibibyte(t),
		"no JSON":            sends("{{{\n"),
		"another version":    sends(`{"v":2,"status":"ok","parts":[{"kind":"text","text":"x"}]}` + "\n"),
		"no base64":          sends(candidate(`{"kind":"image","media_type":"image/jpeg","data":"=="}`)),
		"another signature":  sends(candidate(image("image/png", jpegOf(90_000)))),
		"a missing payload":  sends(candidate(good, reference(p.id, "nothing", 100_000))),
		"another digest":     sends(candidate(good, reference(p.id, "shot", 100_000))),
		"another run's":      sends(candidate(good, reference("01890000-0000-7000-8000-000000000001", "shot", 100_000))),
		"the second too big": sends(candidate(good, image("image/jpeg", jpegOf(projection.ImageBytesMax+1)))),
		"the second bad":     sends(candidate(good, `{"kind":"image","media_type":"image/jpeg","data":"?"}`)),
	} {
		p.ends(name, second)
	}
	p.panics(owner)
	p.shown("a good one", candidate(good))
	stop()
	sum, err := store.Verify(t.Context(), filepath.Join(dir, "s"), store.VerifyOptions{Deep: true}, func(f store.Finding) { t.Error(f) })
	if err != nil || sum.Dangling != 0 || sum.UnreferencedRecords != 0 || sum.UnreferencedBytes != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func (p *projectors) claim(name string) uint64 {
	p.t.Helper()
	got, err := p.c.Claim(p.t.Context(), p.id, control.ClaimRequest{CallID: name, Name: "tool", Safety: "mutating"})
	if err != nil {
		p.t.Fatalf("%s: claim: %v", name, err)
	}
	return got.Call
}

// ends claims a call, sends its outcome and then what second sends, and sees
// what became of it.
func (p *projectors) ends(name string, second func(net.Conn)) {
	p.t.Helper()
	call := p.claim(name)
	began := time.Now()
	c, err := net.Dial("unix", p.sock)
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(began.Add(time.Minute))
	fmt.Fprintf(c, "POST /v1/runs/%s/tools/%d/outcome HTTP/1.1\r\nHost: d\r\n%s: %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
		p.id, call, control.HeaderWriter, p.token, control.TypeNDJSON)
	sends(sentOutcome + "\n")(c)
	second(c)
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(b), `"projection":`+projection.Sentinel) {
			p.t.Errorf("%s: %d %s", name, resp.StatusCode, b)
		}
	}
	p.committed(name, call)
	if took := time.Since(began); took > projectorBound {
		p.t.Errorf("%s: committed after %v", name, took)
	}
	p.noSecondEffect(name, call)
}

// committed waits until the call has ended, and sees that it has the sentinel.
func (p *projectors) committed(name string, call uint64) {
	p.t.Helper()
	// The same outcome without a projection waits for the one that leads.
	got, err := p.c.Outcome(p.t.Context(), p.id, call, []byte(sentOutcome), nil)
	if err != nil || string(got.Outcome) != sentOutcome || string(got.Projection) != projection.Sentinel {
		p.t.Errorf("%s: committed %+v, %v", name, got, err)
	}
}

func (p *projectors) noSecondEffect(name string, call uint64) {
	p.t.Helper()
	_, err := p.c.Claim(p.t.Context(), p.id, control.ClaimRequest{CallID: name, Name: "tool", Safety: "mutating"})
	if pr, ok := errors.AsType[*control.Problem](err); !ok || pr.Code != control.CodeCallExists || pr.State != control.CallSettled {
		p.t.Errorf("%s: claimed again: %v", name, err)
	}
	if _, err := p.c.Again(p.t.Context(), p.id, call, ""); err == nil {
		p.t.Errorf("%s: it may run again", name)
	}
}

// panics runs a tool with the client, whose projector panics.
func (p *projectors) panics(owner *control.Client) {
	p.t.Helper()
	r, err := owner.Run(p.t.Context(), control.StartRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	effects := 0
	for range 2 {
		got, err := r.Tool(p.t.Context(), control.ToolCall{ID: "c", Name: "tool"}, "mutating",
			func(context.Context, control.Claimed) (any, error) { effects++; return "done", nil },
			func(context.Context, json.RawMessage) ([]byte, error) { panic("a projector's") })
		if err != nil || string(got.Projection) != projection.Sentinel {
			p.t.Errorf("a projector that panics: %+v, %v", got, err)
		}
	}
	if effects != 1 {
		p.t.Errorf("%d effects", effects)
	}
	if _, err := r.Settle(p.t.Context(), control.SettleRequest{Status: "success"}); err != nil {
		p.t.Error(err)
	}
}

// shown ends a call with a projection that is taken.
func (p *projectors) shown(name, candidate string) {
	p.t.Helper()
	got, err := p.c.Outcome(p.t.Context(), p.id, p.claim(name), []byte(sentOutcome), []byte(strings.TrimSpace(candidate)))
	if err != nil || string(got.Projection) == projection.Sentinel {
		p.t.Errorf("%s: %+v, %v", name, got, err)
	}
}

// sends sends a chunk of the body.
func sends(s string) func(net.Conn) {
	return func(c net.Conn) { fmt.Fprintf(c, "%x\r\n%s\r\n", len(s), s) }
}

// sendsGibibyte sends a line of a GiB, or as much of it as is taken: that is no
// more than a candidate may have, and what the sockets hold; and the heap grows
// by no more than a few times that.
func sendsGibibyte(t *testing.T) func(net.Conn) {
	return func(c net.Conn) {
		runtime.GC()
		before, most, sent := heapNow(), uint64(0), 0
		for part := strings.Repeat("x", 1<<20); sent < 1<<30; sent += len(part) {
			if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(part), part); err != nil {
				break
			}
			most = max(most, heapNow())
		}
		if sent > projection.CandidateBytesMax+16<<20 || most > before+4*projection.CandidateBytesMax {
			t.Errorf("%d bytes were taken, and the heap grew from %d to %d", sent, before, most)
		}
	}
}

func heapNow() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func candidate(parts ...string) string {
	return `{"v":1,"status":"ok","parts":[` + strings.Join(parts, ",") + "]}\n"
}

func image(mediaType string, b []byte) string {
	return `{"kind":"image","media_type":"` + mediaType + `","data":"` + base64.StdEncoding.EncodeToString(b) + `"}`
}

func reference(run, name string, bytes int) string {
	return fmt.Sprintf(`{"kind":"image","media_type":"image/jpeg","ref":{"run":%q,"name":%q,"b3":%q,"bytes":%d}}`, run, name, strings.Repeat("0", 64), bytes)
}

// jpegOf is a JPEG by its signature, of bytes that do not shrink.
func jpegOf(size int) []byte {
	b := make([]byte, size)
	for i, x := 0, uint32(size); i < size; i++ {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	copy(b, "\xff\xd8\xff")
	return b
}
