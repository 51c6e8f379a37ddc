package cas

// line is the goroutine that stores a payload's chunks in their order, as they
// come out of the encoders. Appending waits for the disk now and then; in a
// goroutine of its own it holds up neither reading nor hashing.
type line struct {
	put    *put
	todo   chan *encoded
	failed chan struct{} // closed after the first error
	over   chan struct{} // closed when the goroutine has ended
	ended  bool          // owned by the caller

	err error // of the first chunk that could not be stored; read it after failed or over
}

func startLine(p *put) *line {
	l := &line{
		put:    p,
		todo:   make(chan *encoded, putDepthMax),
		failed: make(chan struct{}),
		over:   make(chan struct{}),
	}
	go l.run()
	return l
}

func (l *line) run() {
	defer close(l.over)
	for e := range l.todo {
		<-e.done
		l.store(e)
		if e.token {
			<-l.put.s.spare
		} else {
			close(e.kept)
		}
	}
}

// store stores a chunk; after an error it only gives the buffer back.
func (l *line) store(e *encoded) {
	if l.err != nil {
		l.put.s.putBuffer(e.buf)
		return
	}
	if l.err = l.put.store(e); l.err != nil {
		close(l.failed)
	}
}

// add puts a chunk at the end of the line. A chunk without a token has no room
// beside others: add then returns when it was stored.
func (l *line) add(e *encoded) error {
	if !e.token {
		e.kept = make(chan struct{})
	}
	l.todo <- e // the goroutine takes until end
	if !e.token {
		<-e.kept
	}
	select {
	case <-l.failed:
		return l.err
	default:
		return nil
	}
}

// end waits until everything in the line was stored, or given up. It may be
// called again.
func (l *line) end() error {
	if !l.ended {
		l.ended = true
		close(l.todo)
	}
	<-l.over
	return l.err
}
