package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"durafs/wal"
)

// Bounds of threads.
const (
	// ThreadBytesMax is how much text of messages a thread has; beyond it its
	// oldest complete answers are shown as digests, and their payloads have
	// the rest.
	ThreadBytesMax = 8 << 20
	// ThreadPageMax bounds a page of messages, ThreadsPageMax one of threads.
	ThreadPageMax  = 500
	ThreadsPageMax = 1000
	// ThreadCallsRuns is how many of a thread's newest runs tell their calls.
	ThreadCallsRuns = 50
	// ThreadPageBytesMax bounds what the messages of a page hold together, but
	// for the newest.
	ThreadPageBytesMax = 32 << 20
	// AnswerBytesMax bounds a complete answer that a reader of a thread is
	// given; a longer one is its payload's.
	AnswerBytesMax = 8 << 20
)

// thread is the messages of one thread, in the order of the log. A message is
// never dropped.
type thread struct {
	messages []message
	bytes    int64 // of their texts, as they are shown
	whole    int   // where to look for the oldest complete answer
	keys     map[hash16]threadKey
}

type threadKey struct {
	body hash16
	lsn  uint64
}

// message is where a message lies.
type message struct {
	at     place
	lsn    uint64
	run    uint32 // 0 for a turn that came by itself
	bytes  uint32
	answer bool // it is a run's end, and a payload has all of it
	once   bool // it is a run's end
	digest bool // its text is shown as a digest
}

// digestedBytes is what a digest counts for.
const digestedBytes = digestHeadBytes

// add puts a message behind the others. again says that there is one of the
// run's end already, whose place it takes.
func (t *thread) add(m message, again bool) {
	for i := 0; again && i < len(t.messages); i++ {
		if old := &t.messages[i]; m.once && old.once && old.run == m.run {
			t.bytes += int64(m.bytes) - old.shown()
			*old = m
			return
		}
	}
	t.messages = append(t.messages, m)
	t.bytes += int64(m.bytes)
	for ; t.bytes > ThreadBytesMax && t.whole < len(t.messages)-1; t.whole++ {
		if old := &t.messages[t.whole]; old.answer && old.bytes > digestedBytes {
			t.bytes -= int64(old.bytes) - digestedBytes
			old.digest = true
		}
	}
}

func (m *message) shown() int64 {
	if m.digest {
		return digestedBytes
	}
	return int64(m.bytes)
}

// remove takes out the messages of a run whose admission is undone.
func (t *thread) remove(run uint32) {
	kept := t.messages[:0]
	for _, m := range t.messages {
		if m.run == run {
			t.bytes -= m.shown()
			continue
		}
		kept = append(kept, m)
	}
	t.messages, t.whole = kept, 0
}

func (x *index) applyThread(e entry, lsn uint64, at place) error {
	v, err := eventOf(e, lsn, at)
	if err == nil {
		x.changeThread(&v)
	}
	return err
}

// Message is one message of a thread.
type Message struct {
	LSN  uint64    `json:"lsn"`
	At   time.Time `json:"at"`
	Role string    `json:"role"`
	Run  string    `json:"run,omitempty"`
	// Message is a user's turn as it came.
	Message json.RawMessage `json:"message,omitempty"`
	Status  string          `json:"status,omitempty"`
	// Text is the complete answer; or Digest is its beginning, where it could
	// not be read or is too long, and then Payload says what has all of it.
	Text    string          `json:"text,omitempty"`
	Digest  string          `json:"digest,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// Calls are the tool calls of the run, for the newest runs; Compacted is
	// true where the run's log has none any more, and MoreCalls where there are
	// more than stand here.
	Calls     []Call `json:"calls,omitempty"`
	MoreCalls bool   `json:"more_calls,omitempty"`
	Compacted bool   `json:"compacted,omitempty"`
	// Damaged is true where something of the message, or of its calls, cannot
	// be read any more.
	Damaged bool `json:"damaged,omitempty"`
}

// bytes is about what a message takes in memory and in an answer.
func (m *Message) bytes() (n int) {
	n = 200 + len(m.Message) + len(m.Text) + len(m.Digest)
	for i := range m.Calls {
		n += m.Calls[i].bytes()
	}
	return n
}

// ThreadPage is a page of a thread, oldest message first; Before is what to
// ask with for the page before it, 0 for none.
type ThreadPage struct {
	Thread   string    `json:"thread"`
	Messages []Message `json:"messages"`
	Before   uint64    `json:"before,omitempty"`
}

// Thread reads the newest messages of a thread that are below the LSN before (0:
// of all), at most limit (0: ThreadPageMax), fewer where they are long. What
// cannot be read is said to be damaged, and harms no other message. Answers are complete, from their
// payloads, up to AnswerBytesMax. Needs an owner.
func (s *Store) Thread(c Caller, name string, before uint64, limit int) (ThreadPage, error) {
	if !c.owns() {
		return ThreadPage{}, refuse(NotOwner, "the thread is not this caller's to read")
	}
	if limit <= 0 || limit > ThreadPageMax {
		limit = ThreadPageMax
	}
	s.mu.RLock()
	t := s.index.threads[name]
	var list []message
	if t != nil {
		end := len(t.messages)
		if before != 0 {
			end = searchMessages(t.messages, before)
		}
		list = slices.Clone(t.messages[max(0, end-limit):end])
	}
	more := t != nil && len(list) > 0 && list[0].lsn != t.messages[0].lsn
	recent := s.index.inThread(name, ThreadCallsRuns)
	s.mu.RUnlock()
	if t == nil && len(recent) == 0 {
		return ThreadPage{}, fieldRefusal(UnknownThread, "thread", "there is no thread %s", quote(name))
	}
	page := ThreadPage{Thread: name, Messages: []Message{}}
	if more {
		page.Before = list[0].lsn
	}
	room := ThreadPageBytesMax
	for i, m := range slices.Backward(list) {
		msg, err := s.threadMessage(m, slices.Contains(recent, m.run))
		if err != nil {
			return page, err
		}
		if room -= msg.bytes(); room < 0 && len(page.Messages) > 0 {
			page.Before = list[i+1].lsn
			break
		}
		page.Messages = append(page.Messages, msg)
	}
	slices.Reverse(page.Messages)
	return page, nil
}

// threadMessage reads a message, and the calls of the run that it ends.
func (s *Store) threadMessage(m message, calls bool) (Message, error) {
	msg, err := s.readMessage(m)
	if err == nil && m.once && calls {
		msg.Calls, msg.MoreCalls, err = s.callsPage(Ref(m.run), 0, 0)
	}
	if isDamage(err) {
		s.foundDamage(m.run, err)
		msg.LSN, msg.Damaged, err = m.lsn, true, nil
	}
	if run, ok := s.Info(Ref(m.run)); ok {
		msg.Run = run.ID
	}
	return msg, err
}

func searchMessages(ms []message, lsn uint64) int {
	for i := range ms {
		if ms[i].lsn >= lsn {
			return i
		}
	}
	return len(ms)
}

func (s *Store) readMessage(m message) (Message, error) {
	b, e, err := s.readEntry(m.at, kindThread)
	if err != nil {
		return Message{}, err
	}
	n, err := parseNote(e)
	if err != nil {
		return Message{}, err
	}
	msg := Message{}
	if err := json.Unmarshal(n.json, &msg); err != nil {
		return Message{}, badBatch("a message: %v", err)
	}
	msg.LSN, msg.At = m.lsn, unixTime(b.stamp.at)
	if m.answer && (m.digest || msg.Digest != "") {
		s.completeAnswer(m.run, &msg, m.digest)
	}
	return msg, nil
}

// completeAnswer gives a message the whole answer: from the payload; if that
// cannot be read, as it stands in the message; else its beginning, and it says
// that it is one.
func (s *Store) completeAnswer(num uint32, msg *Message, digested bool) {
	f, err := s.findPayload(num, TerminalName)
	if err == nil && f != nil && f.ref.Bytes <= AnswerBytesMax {
		answer, rerr := s.readRef(f.ref, AnswerBytesMax)
		if rerr == nil && int64(len(answer)) == f.ref.Bytes && utf8.Valid(answer) {
			msg.Text, msg.Digest = string(answer), ""
			return
		}
		err = rerr
	}
	if err != nil {
		s.logger.Warn("an answer cannot be read for its thread", "run", num, "error", err)
		return // what stands in the message is all there is
	}
	if digested && msg.Text != "" {
		msg.Digest, msg.Text = validText(cutText(msg.Text, digestHeadBytes)), ""
	}
}

// PostRequest is a user's turn.
type PostRequest struct {
	Message        json.RawMessage // any JSON
	IdempotencyKey string
	BodyHash       [32]byte
}

// Posted answers a post: it is durable.
type Posted struct {
	LSN      uint64 `json:"lsn"`
	Replayed bool   `json:"replayed,omitempty"`
}

// Post adds a user's turn to a thread. The same key and body again answers the
// first; another body is refused. Needs an owner.
func (s *Store) Post(ctx context.Context, c Caller, name string, r PostRequest) (Posted, error) {
	if !c.owns() {
		return Posted{}, refuse(NotOwner, "the thread is not this caller's to write to")
	}
	if err := badName("thread", name, goodName(name)); err != nil {
		return Posted{}, err
	}
	if r.Message == nil {
		r.Message = json.RawMessage("null")
	}
	if err := checkMessage(r.Message); err != nil {
		return Posted{}, err
	}
	n := &note{name: name, json: object("role", "user", "message", json.RawMessage(bytes.TrimSpace(r.Message)))}
	if r.IdempotencyKey != "" {
		if err := badName("Idempotency-Key", r.IdempotencyKey, badKey(r.IdempotencyKey)); err != nil {
			return Posted{}, err
		}
		n.keyed, n.key, n.body = true, hashOf(0, []byte("post"), []byte(name), []byte{0}, []byte(r.IdempotencyKey)), hash16(r.BodyHash[:16])
	}
	var got Posted
	b := newBatch(0, n.entry(kindThread, 0, 0))
	err := s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision {
		if have, ok := s.posted(name, n); ok {
			got = Posted{LSN: have.lsn, Replayed: true}
			if have.body != n.body {
				return wal.Decision{After: have.lsn, Err: fieldRefusal(IdempotencyMismatch, "Idempotency-Key", "the Idempotency-Key has posted another message")}
			}
			return wal.Decision{After: have.lsn}
		}
		if n.keyed {
			s.acc.posts.add(n.key, threadKey{n.body, lsn}, lsn)
		}
		got = Posted{LSN: lsn}
		return s.acceptStore(lsn, b)
	})
	return got, err
}

// posted finds an earlier post of the same key; mu is held.
func (s *Store) posted(name string, n *note) (threadKey, bool) {
	if !n.keyed {
		return threadKey{}, false
	}
	if k, ok := s.acc.posts.entries[n.key]; ok {
		return k, true
	}
	if t := s.index.threads[name]; t != nil {
		k, ok := t.keys[n.key]
		return k, ok
	}
	return threadKey{}, false
}

// ThreadInfo is a thread in a list.
type ThreadInfo struct {
	Thread   string `json:"thread"`
	Messages int    `json:"messages"`
	Bytes    int64  `json:"bytes"`
	// LastAt is the zero time where the last message cannot be read.
	LastAt time.Time `json:"last_at"`

	lsn uint64
	at  place
}

// Threads lists threads, by name, above the name after. Needs an owner.
func (s *Store) Threads(c Caller, after string, limit int) (list []ThreadInfo, more bool, err error) {
	if !c.owns() {
		return nil, false, refuse(NotOwner, "the threads are not this caller's to read")
	}
	if limit <= 0 || limit > ThreadsPageMax {
		limit = ThreadsPageMax
	}
	s.mu.RLock()
	names := make([]string, 0, len(s.index.threads))
	for name := range s.index.threads {
		if name > after {
			names = append(names, name)
		}
	}
	s.mu.RUnlock()
	slices.Sort(names) // of a million it takes a second, and nobody is to wait for it
	more = len(names) > limit
	list = []ThreadInfo{}
	s.mu.RLock()
	for _, name := range names[:min(len(names), limit)] {
		t := s.index.threads[name]
		if t == nil {
			continue // its only run was undone since
		}
		info := ThreadInfo{Thread: name, Messages: len(t.messages), Bytes: t.bytes}
		if n := len(t.messages); n > 0 {
			info.at, info.lsn = t.messages[n-1].at, t.messages[n-1].lsn
		}
		list = append(list, info)
	}
	s.mu.RUnlock()
	for i := range list {
		if list[i].lsn == 0 {
			continue
		}
		b, err := s.readBatch(list[i].at.pos())
		if isDamage(err) {
			continue // it is a thread all the same
		}
		if err != nil {
			return nil, false, err
		}
		list[i].LastAt = unixTime(b.stamp.at)
	}
	return list, more, nil
}
