package runs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func (w *world) delete(id, name string) (DeletedPayload, error) {
	return w.s.DeletePayload(ctx, owner, id, name)
}

// TestDeletePayload: a deleted payload is told of, and nothing else of it is
// left; what shares its bytes is not touched, and its name is not given again.
// So it is after a restart, of a run that goes on and of one that has ended.
func TestDeletePayload(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("payload", 10_000)
	a := w.start(StartRequest{ID: "exec_a", ResumeRequest: []byte("resume")})
	a.mustPut("p", text)
	a.mustPut("same", text)
	if _, _, err := w.s.Put(ctx, a.c, a.id, "out", SourceToolResult, "", strings.NewReader("out")); err != nil {
		t.Fatal(err)
	}
	changed := []Change{}
	w.s.Listen(func(c []Change) { changed = append(changed, c...) })
	got, err := w.delete(a.id, "p")
	if err != nil || got.Replayed || got.Name != "p" || got.Source != SourceNamed || got.Bytes != int64(len(text)) || got.At.IsZero() {
		t.Fatalf("deleted: %+v, %v", got, err)
	}
	if len(changed) != 1 || changed[0].Kinds&(ChangedPayload|ChangedDeleted|ChangedLog) != ChangedPayload|ChangedDeleted|ChangedLog {
		t.Errorf("listeners are told %+v", changed)
	}
	row := `"type":"payload-deleted","name":"p","source":"named","bytes":70000,"b3":"` + got.B3.String() + `","by_uid":1000}`
	if log := w.logText(a.id); !strings.Contains(log, row) {
		t.Errorf("the log does not tell of it:\n%s", log)
	}
	if _, err := a.settle(Success, "answer"); err != nil {
		t.Fatal(err)
	}
	sealed := w.logText(a.id)
	out, err := w.delete(a.id, "out")
	if err != nil {
		t.Fatal(err)
	}
	if w.logText(a.id) != sealed || !strings.Contains(w.late(a.id), `"what":"payload-deleted","name":"out","source":"tool_result","bytes":3`) {
		t.Errorf("the log is %s, and late is %s", w.logText(a.id), w.late(a.id))
	}
	for range 2 {
		for _, gone := range []DeletedPayload{got, out} {
			gone.Replayed = true
			if again, err := w.delete(a.id, gone.Name); err != nil || again != gone {
				t.Errorf("deleted again: %+v, %v", again, err)
			}
			_, err := w.payload(a.id, gone.Name)
			if r := wantCode(t, err, PayloadDeleted); !r.At.Equal(gone.At) || r.Size != gone.Bytes || r.Field != gone.Name {
				t.Errorf("its reader is told %+v", r)
			}
			_, err = w.s.PayloadInfo(w.ref(a.id), gone.Name)
			wantCode(t, err, PayloadDeleted)
		}
		list, err := w.s.PayloadList(w.ref(a.id))
		if err != nil || len(list) != 2 || list[0].Name != "same" || list[0].Ordinal != 2 || list[1].Name != TerminalName {
			t.Errorf("listed are %+v, %v", list, err)
		}
		if same, err := w.payload(a.id, "same"); err != nil || same != text {
			t.Errorf("what shared its bytes has %d bytes, %v", len(same), err)
		}
		w.used()
		w.reopen()
	}
	for name, code := range map[string]Code{
		TerminalName: ProtectedSource, resumeRequestName: ProtectedSource, "none": UnknownPayload, lostName + "1": UnknownPayload,
	} {
		_, err := w.delete(a.id, name)
		wantCode(t, err, code)
	}
	_, err = w.s.DeletePayload(ctx, a.c, a.id, "same")
	wantCode(t, err, NotOwner)
	_, err = w.s.DeletePayload(ctx, Caller{Owner: true, Writer: a.c.Writer}, a.id, "same")
	wantCode(t, err, NotOwner)
	_, err = w.delete("exec_none", "p")
	wantCode(t, err, UnknownRun)
}

// TestDeletedNameStaysTaken: neither other bytes nor the same come back under
// the name, and nothing can refer to it any more; what did still reads.
func TestDeletedNameStaysTaken(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	image, args := jpeg(40_000, 1), strings.Repeat(" ", 20_000)+"1"
	for name, b := range map[string][]byte{"shot": image, "args": []byte(args)} {
		if _, _, err := w.s.Put(ctx, a.c, a.id, name, SourceToolResult, "image/jpeg", bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.s.Claim(ctx, a.c, a.id, ClaimRequest{CallID: "c", Name: "t", ArgsPayload: "args"}); err != nil {
		t.Fatal(err)
	}
	a.mustClaim("d", "t", "read-only")
	info, err := w.s.PayloadInfo(w.ref(a.id), "shot")
	if err != nil {
		t.Fatal(err)
	}
	show := fmt.Sprintf(`{"v":1,"status":"ok","parts":[{"kind":"image","media_type":"image/jpeg","ref":{"run":"exec_a","name":"shot","b3":"%s","bytes":40000}}]}`, info.B3)
	if got := a.mustProject(1, `{"of":"args"}`, show); got.Refused != "" {
		t.Fatalf("a projection of it: %+v", got)
	}
	seen := HistoryRequest{Materialize: true, Vision: true, ImageBudget: 1 << 20}
	before := a.history(seen) + a.history(HistoryRequest{})
	for _, name := range []string{"shot", "args"} {
		if _, err := w.delete(a.id, name); err != nil {
			t.Fatal(err)
		}
	}
	if after := a.history(seen) + a.history(HistoryRequest{}); after != before {
		t.Errorf("the history was\n%s\nand is\n%s", before, after)
	}
	for range 2 {
		for _, text := range []string{"other", args} {
			_, _, err = a.put("args", text)
			if r := wantCode(t, err, PayloadConflict); !strings.Contains(r.Detail, "deleted") {
				t.Errorf("it is not said why: %v", r)
			}
		}
		_, err = w.s.Claim(ctx, a.c, a.id, ClaimRequest{CallID: "e", Name: "t", ArgsPayload: "args"})
		wantCode(t, err, PayloadDeleted)
		_, err = w.s.Settle(ctx, a.c, a.id, SettleRequest{Status: Success, PayloadName: "args"})
		wantCode(t, err, PayloadDeleted)
		w.reopen()
		a.mustAttachAll(2)
	}
	_, err = w.delete(a.id, ".projection-1-0")
	wantCode(t, err, ProtectedSource)
	if got := a.mustProject(2, `{}`, show); !strings.Contains(got.Refused, "not among the run's payloads") {
		t.Errorf("a projection of a deleted payload: %+v", got)
	}
}

func (a *agent) mustAttachAll(calls ...uint64) {
	a.w.t.Helper()
	r := AttachRequest{Calls: map[uint64]string{}}
	for _, c := range calls {
		r.Calls[c] = "running"
	}
	if _, err := a.w.s.Attach(ctx, a.c, a.id, r); err != nil {
		a.w.t.Fatal(err)
	}
}

// TestDeleteRaces: of many who delete one payload at once, one has, and the
// others are told so; puts of it meanwhile are refused or were before.
func TestDeleteRaces(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	for n := range 30 {
		name := fmt.Sprint("p", n)
		done := make(chan error)
		first := make(chan bool, 8)
		for i := range 8 {
			go func() {
				if i%4 == 3 {
					_, _, err := a.put(name, "x")
					if CodeOf(err) == PayloadConflict {
						err = nil
					}
					done <- err
					return
				}
				for {
					d, err := w.delete(a.id, name)
					if CodeOf(err) == UnknownPayload {
						yield()
						continue
					}
					first <- err == nil && !d.Replayed
					done <- err
					return
				}
			}()
		}
		for range 8 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		firsts := 0
		for range 6 {
			if <-first {
				firsts++
			}
		}
		if firsts != 1 {
			t.Errorf("%d have deleted it first", firsts)
		}
	}
	if n := strings.Count(w.logText(a.id), "payload-deleted"); n != 30 || w.info(a.id).Deleted != 30 {
		t.Errorf("%d rows tell of 30 deletions", n)
	}
	w.used()
}
