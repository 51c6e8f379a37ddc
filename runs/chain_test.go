package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
)

// TestChain: of a stream with several groups on their way, what is durable is
// a prefix, whatever becomes of one of them, and other writers go on.
func TestChain(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  string // the third group, "" for a write that fails under it
		code Code
	}{
		{"a row that is another one's", `{"k":"0","v":"other"}`, KeyConflict},
		{"a write that fails", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBarrier()
			faulty := vfs.NewFaulty(b)
			w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
			t.Cleanup(w.close)
			w.mustOpen()
			a := w.start(StartRequest{})
			var ch Chain
			var waits []func(context.Context) (Appended, error)
			add := func(row string) {
				t.Helper()
				wait, err := w.s.AppendStart(ctx, a.c, a.id, rowsOf(row), "k", &ch)
				if err != nil {
					t.Fatal(err)
				}
				waits = append(waits, wait)
			}
			b.hold()
			add(`{"k":"0"}`)
			<-b.entered
			add(`{"k":"1"}`)
			bad := c.bad
			if bad == "" {
				bad = `{"k":"2"}`
				faulty.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Mode: vfs.Half, Err: syscall.EIO, Match: isGroup})
			}
			add(bad)
			held := 2 // groups that stand
			if c.bad == "" {
				held = 1
				b.letGo(nil)
				// Between the refusal and the stream's hearing of it somebody
				// else's rows are taken; the stream's are not.
				if _, err := waits[2](ctx); err == nil {
					t.Fatal("the write did not fail")
				}
				if _, err := w.s.Append(ctx, a.c, a.id, rowsOf(`{"k":"x"}`), "k"); err != nil {
					t.Fatal(err)
				}
			}
			for i := 3; i < 20; i++ {
				add(fmt.Sprintf(`{"k":"%d"}`, i))
			}
			if c.bad != "" {
				b.letGo(nil)
			}
			for i, wait := range waits {
				_, err := wait(ctx)
				switch {
				case i < held && err != nil, i >= held && err == nil:
					t.Errorf("group %d: %v", i, err)
				case i == 2 && CodeOf(err) != c.code:
					t.Errorf("the bad group: %v", err)
				case i > 2 && !errors.Is(err, errBehindGap):
					t.Errorf("group %d, behind the bad one: %v", i, err)
				}
			}
			want := `{"k":"0"}{"k":"1"}`
			if c.bad == "" {
				want = `{"k":"0"}{"k":"x"}`
			}
			if got := strings.Join(w.agentRows(a.id), ""); got != want {
				t.Errorf("the log has %s", got)
			}
			w.s.EndChain(&ch)
			if len(w.s.acc.chains) != 0 {
				t.Error("the chain is not forgotten")
			}
			a.mustAppend(`{"after":1}`)
		})
	}
}
