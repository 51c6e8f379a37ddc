package runs

import (
	"fmt"
	"strings"
	"testing"

	"durafs/cas"
)

// TestThread: turns and complete answers in order; a run's calls beside its
// answer; every page of it.
func TestThread(t *testing.T) {
	w, _ := newTimed(t)
	_, err := w.s.Thread(owner, "T", 0, 0)
	wantCode(t, err, UnknownThread)
	long := strings.Repeat("0123456789abcdef", 40<<10)
	a := w.start(StartRequest{Labels: Labels{"thread": "T"}, Message: []byte(`{"text":"q1"}`)})
	a.mustOutcome(a.mustClaim("c", "search", "read-only").Call, `{"status":"ok"}`)
	a.mustSettle(long)
	post, err := w.s.Post(ctx, owner, "T", PostRequest{Message: []byte(`"q2"`), IdempotencyKey: "k", BodyHash: [32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	b := w.start(StartRequest{Labels: Labels{"thread": "T"}})
	if err := w.cancel(b.id); err != nil {
		t.Fatal(err)
	}
	b.try("ack")
	for range 2 {
		page, err := w.s.Thread(owner, "T", 0, 0)
		if err != nil || len(page.Messages) != 4 || page.Before != 0 {
			t.Fatalf("%.300s, %v", mustJSON(page), err)
		}
		m := page.Messages
		if string(m[0].Message) != `{"text":"q1"}` || m[0].Run != a.id || m[1].Text != long || m[1].Digest != "" || len(m[1].Calls) != 1 || m[1].Calls[0].Name != "search" {
			t.Errorf("first: %.300s %.300s", mustJSON(m[0]), mustJSON(m[1]))
		}
		if string(m[2].Message) != `"q2"` || m[2].Run != "" || m[2].LSN != post.LSN || m[3].Status != "cancelled" || m[3].Run != b.id {
			t.Errorf("then: %s %s", mustJSON(m[2]), mustJSON(m[3]))
		}
		var got []Message
		for before := uint64(0); ; {
			page, err := w.s.Thread(owner, "T", before, 3)
			if err != nil {
				t.Fatal(err)
			}
			got = append(page.Messages, got...)
			if before = page.Before; before == 0 {
				break
			}
		}
		if string(mustJSON(got)) != string(mustJSON(m)) {
			t.Error("pages are not the whole")
		}
		again, err := w.s.Post(ctx, owner, "T", PostRequest{Message: []byte(`"q2"`), IdempotencyKey: "k", BodyHash: [32]byte{1}})
		if err != nil || !again.Replayed || again.LSN != post.LSN {
			t.Errorf("posted again: %+v, %v", again, err)
		}
		_, err = w.s.Post(ctx, owner, "T", PostRequest{Message: []byte(`"q3"`), IdempotencyKey: "k", BodyHash: [32]byte{2}})
		wantCode(t, err, IdempotencyMismatch)
		w.reopen()
	}
	_, err = w.s.Thread(a.c, "T", 0, 0)
	wantCode(t, err, NotOwner)
	list, more, err := w.s.Threads(owner, "", 0)
	if err != nil || more || len(list) != 1 || list[0].Thread != "T" || list[0].Messages != 4 || list[0].LastAt.IsZero() {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

// TestThreadBytes: beyond its bound a thread's oldest answers are digests in
// it, and readers still get them whole; nothing is dropped.
func TestThreadBytes(t *testing.T) {
	w, _ := newTimed(t)
	answer := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", 200<<10)) }
	const n = 45
	for i := range n {
		w.start(StartRequest{Labels: Labels{"thread": "T"}, Message: []byte(fmt.Sprint(i))}).mustSettle(answer(i))
	}
	for range 2 {
		th := w.s.index.threads["T"]
		digests := 0
		for _, m := range th.messages {
			if m.digest {
				digests++
			}
		}
		if len(th.messages) != 2*n || th.bytes > ThreadBytesMax || digests < 4 || digests > 10 || !th.messages[1].digest {
			t.Fatalf("%d messages of %d bytes, %d digests", len(th.messages), th.bytes, digests)
		}
		page, err := w.s.Thread(owner, "T", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if page.Messages[2*i+1].Text != answer(i) {
				t.Fatalf("answer %d is not whole", i)
			}
		}
		w.reopen()
	}
	// Without the chunks the newest are whole in the thread itself, and of the
	// oldest there is what they are said to be: a digest.
	real := w.s.cas
	empty, err := openChunks(w.fs, fastDir(t), new(memLedger), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	w.s.cas = empty
	page, err := w.s.Thread(owner, "T", 0, 0)
	w.s.cas = real
	if err != nil || page.Messages[1].Text != answer(0) || page.Messages[2*n-1].Text != answer(n-1) {
		t.Errorf("an answer that stands whole in the log is not given: %v", err)
	}
	var _ *cas.Store = real
}
