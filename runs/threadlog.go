package runs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"durafs/wal"
)

// The threads section tells what the batches of a table's segments have added
// to threads and taken out of them, in the order of the log: applying that to
// the threads before gives those after. It covers the same segments as the run
// table beside it, and is left out where there is nothing to tell.
//
//	magic   4  "THRD"
//	then for each message that was added, or run whose messages were removed:
//	place  12  of the message; zero for a removal
//	lsn     8
//	run     4  0 for a turn that came by itself
//	bytes   4  of its JSON
//	flags   1  1 a run's end, 2 it has an answer, 4 key and body follow, 8 a removal
//	name    1 + length and name of the thread
//	key    16  } only with the flag
//	body   16  }
const (
	threadFixedBytes  = 30
	threadOnce        = 1
	threadHasAnswer   = 2
	threadHasKey      = 4
	threadRunRemoved  = 8
	threadFlagsKnown  = 15
	threadMagicString = "THRD"
)

// threadEvent is one change of a thread.
type threadEvent struct {
	message
	name      string
	removed   bool
	keyed     bool
	key, body hash16
}

func (v *threadEvent) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, v.at.segment), v.at.offset), v.at.entry)
	b = le.AppendUint32(le.AppendUint32(le.AppendUint64(b, v.lsn), v.run), v.bytes)
	var flags byte
	for _, f := range [...]struct {
		set bool
		bit byte
	}{{v.once, threadOnce}, {v.answer, threadHasAnswer}, {v.keyed, threadHasKey}, {v.removed, threadRunRemoved}} {
		if f.set {
			flags |= f.bit
		}
	}
	b = append(append(b, flags, byte(len(v.name))), v.name...)
	if v.keyed {
		b = append(append(b, v.key[:]...), v.body[:]...)
	}
	return b
}

var errThreads = errors.New("runs: what a footer says of threads is not well formed")

func badThreads(what string) error { return fmt.Errorf("%w: %s", errThreads, what) }

// readThreadEvent reads one; io.EOF is the end.
func readThreadEvent(r io.Reader) (v threadEvent, err error) {
	var b [threadFixedBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = badThreads("it is cut short")
		}
		return v, err
	}
	le := binary.LittleEndian
	v.at = place{le.Uint32(b[:]), le.Uint32(b[4:]), le.Uint32(b[8:])}
	v.lsn, v.run, v.bytes = le.Uint64(b[12:]), le.Uint32(b[20:]), le.Uint32(b[24:])
	flags := b[28]
	v.once, v.answer, v.keyed, v.removed = flags&threadOnce != 0, flags&threadHasAnswer != 0, flags&threadHasKey != 0, flags&threadRunRemoved != 0
	if flags > threadFlagsKnown || b[29] == 0 || v.bytes > wal.BatchBytesMax || v.removed && (flags != threadRunRemoved || v.at != (place{}) || v.bytes != 0) {
		return v, badThreads("a message makes no sense")
	}
	rest := make([]byte, int(b[29]), int(b[29])+32)
	if v.keyed {
		rest = rest[:cap(rest)]
	}
	if _, err := io.ReadFull(r, rest); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = badThreads("it is cut short")
		}
		return v, err
	}
	n := int(b[29])
	v.name = string(rest[:n])
	if v.keyed {
		copy(v.key[:], rest[n:])
		copy(v.body[:], rest[n+16:])
	}
	return v, nil
}

// threadsOf opens the section of a footer behind its magic; nil where there is
// none.
func threadsOf(sections wal.Sections) (io.Reader, error) {
	r, ok := sections.Section(sectionThreads)
	if !ok {
		return nil, nil
	}
	var magic [len(threadMagicString)]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return nil, err
	}
	if string(magic[:]) != threadMagicString {
		return nil, badThreads("its magic is not there")
	}
	return r, nil
}

// writeThreads writes the section: what older ones say, then what is new.
func (d *derived) writeThreads(w sectionWriter, older []io.Reader) error {
	begun := false
	begin := func() error {
		if begun {
			return nil
		}
		begun = true
		w.Begin(sectionThreads)
		_, err := w.Write([]byte(threadMagicString))
		return err
	}
	for _, r := range older {
		if r == nil {
			continue
		}
		if err := begin(); err != nil {
			return err
		}
		if _, err := io.Copy(w, bufio.NewReader(r)); err != nil {
			return err
		}
	}
	if len(d.threads) == 0 {
		return nil
	}
	if err := begin(); err != nil {
		return err
	}
	_, err := w.Write(d.threads)
	return err
}

// loadThreads applies the section of a footer; mu is held. It comes before the
// rows of the table beside it.
func (x *index) loadThreads(sections wal.Sections) error {
	r, err := threadsOf(sections)
	if err != nil || r == nil {
		return err
	}
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		v, err := readThreadEvent(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		x.changeThread(&v)
	}
}

// changeThread applies one change of a thread.
func (x *index) changeThread(v *threadEvent) {
	t := x.threads[v.name]
	switch {
	case v.removed:
		x.forgetInThread(v.name, v.run)
		return
	case t == nil:
		t = new(thread)
		x.threads[v.name] = t
	}
	if v.keyed {
		if t.keys == nil {
			t.keys = map[hash16]threadKey{}
		}
		t.keys[v.key] = threadKey{v.body, v.lsn}
	}
	again := false
	if v.once && v.run != 0 {
		c, i := x.grow(v.run)
		again = c.flags[i]&flagThreaded != 0
		c.flags[i] |= flagThreaded
	}
	first := t.number()
	t.add(v.message, again)
	x.threadOrder.renumber(v.name, first, t.number())
}

// forgetInThread takes the messages of a run out of a thread.
func (x *index) forgetInThread(name string, run uint32) {
	t := x.threads[name]
	if t == nil {
		return
	}
	first := t.number()
	t.remove(run)
	x.threadOrder.renumber(name, first, t.number())
	if len(t.messages) == 0 && len(t.keys) == 0 {
		delete(x.threads, name)
	}
}

// eventOf is the change that a thread entry makes.
func eventOf(e entry, lsn uint64, at place) (threadEvent, error) {
	n, err := parseNote(e)
	if err != nil {
		return threadEvent{}, err
	}
	once := e.flags&onceTerminal != 0
	return threadEvent{
		message: message{
			at: at, lsn: lsn, run: e.run, bytes: uint32(len(n.json)), once: once,
			answer: once && e.flags&threadAnswer != 0,
		},
		name: n.name, keyed: n.keyed, key: n.key, body: n.body,
	}, nil
}
