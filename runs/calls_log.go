package runs

// CallLog is a run's tool calls as of a moment, numbered from 1. It may be used
// concurrently.
type CallLog interface {
	Len() int
	// Call reads a call by its number.
	Call(number int) (Call, error)
}

// callLog holds where each call stands and nothing else, 40 bytes a call.
type callLog struct {
	store *Store
	calls []callPlace
}

// callPlace is where the log tells of a call.
type callPlace struct {
	claim, outcome entryPlace // outcome is the zero place while there is none
	attempt        uint32     // of the newest claim
}

// OpenCalls finds the calls that a run has claimed up to now. It walks the run's
// log once.
func (s *Store) OpenCalls(ref Ref) (CallLog, error) {
	run, ok := s.Info(ref)
	if !ok {
		return nil, unknownRef(ref)
	}
	c := &callLog{store: s}
	if run.LastSeq == 0 {
		return c, nil
	}
	return c, s.walkPlaces(uint32(ref), run.LastSeq, func(at entryPlace, _ *batch, e entry) error {
		switch e.kind {
		case kindClaim:
			cl, err := parseClaim(e)
			if err != nil {
				return err
			}
			return c.claimed(cl, at)
		case kindOutcome:
			o, err := parseOutcome(e)
			if err == nil && o.Call-1 < uint64(len(c.calls)) {
				c.calls[o.Call-1].outcome = at
			}
			return err
		}
		return nil
	})
}

// claimed notes a claim: of the call that follows, or again of one before.
func (c *callLog) claimed(cl *claim, at entryPlace) error {
	switch n := cl.Call - 1; {
	case n < uint64(len(c.calls)):
		c.calls[n].attempt = uint32(cl.Attempt)
	case n == uint64(len(c.calls)):
		c.calls = append(c.calls, callPlace{claim: at, attempt: uint32(cl.Attempt)})
	default: // those between are lost
		return badBatch("its claim of call %d follows call %d", cl.Call, len(c.calls))
	}
	return nil
}

// Len implements CallLog.
func (c *callLog) Len() int { return len(c.calls) }

// Call implements CallLog.
func (c *callLog) Call(number int) (Call, error) {
	p := c.calls[number-1]
	e, err := c.store.entryAt(p.claim, kindClaim)
	if err != nil {
		return Call{}, err
	}
	cl, err := parseClaim(e)
	if err != nil {
		return Call{}, err
	}
	call := cl.public()
	call.Attempt = uint64(p.attempt)
	if p.outcome == (entryPlace{}) {
		return call, nil
	}
	if e, err = c.store.entryAt(p.outcome, kindOutcome); err != nil {
		return Call{}, err
	}
	o, err := parseOutcome(e)
	if err != nil {
		return Call{}, err
	}
	done := committed(o.own(), false)
	call.Result = &done
	return call, nil
}
