package runs

import "time"

// Get reads a run's public record, with its ETag. Needs an owner or the run's
// writer token.
func (s *Store) Get(c Caller, id string) (*Record, string, error) {
	num, err := s.lookup(id)
	if err != nil {
		return nil, "", err
	}
	if err := s.mayRead(c, num); err != nil {
		return nil, "", err
	}
	return s.recordFor(c, num)
}

// Look is the gate of the reading methods: it resolves an id and checks that
// the caller may read the run's log and payloads.
func (s *Store) Look(c Caller, id string) (Ref, error) {
	num, err := s.lookup(id)
	if err != nil {
		return 0, err
	}
	return Ref(num), s.mayRead(c, num)
}

func (s *Store) lookup(id string) (uint32, error) {
	if _, err := ParseID(id); err != nil {
		return 0, err
	}
	ref, ok := s.Lookup(id)
	if !ok {
		return 0, unknownRun(id)
	}
	return uint32(ref), nil
}

// Lookup resolves an id for the owner's own views (the mount).
func (s *Store) Lookup(id string) (Ref, bool) {
	if !isUUID(id) && !isExecID(id) {
		return 0, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	num := s.index.find(id)
	return Ref(num), num != 0
}

// mayRead lets owners and holders of the current writer token read.
func (s *Store) mayRead(c Caller, num uint32) error {
	if c.Owner && c.Writer == "" {
		return nil
	}
	if c.Writer == "" {
		return refuse(NotOwner, "the run is not this caller's to read")
	}
	now, newest := s.epochs(num)
	epoch := s.epochOf(num, c.Writer, newest)
	switch {
	case epoch == 0:
		return refuse(WrongToken, "the writer token is not one of this run")
	case epoch < now:
		return refuse(StaleWriter, "the writer token is of epoch %d, and the run is in epoch %d", epoch, now)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if l := s.acc.runs[num]; l != nil && l.epoch == epoch {
		s.heard(l) // who reads is there
	}
	return nil
}

// epochs are the published epoch of a run, and the highest that may have been
// given: another one only where the run is damaged.
func (s *Store) epochs(num uint32) (now, newest uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, i := s.index.at(num)
	now = uint64(c.epoch[i])
	return now, s.index.epochMax(num, now)
}

// Info tells what the index knows of a run.
func (s *Store) Info(ref Ref) (Run, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.run(uint32(ref))
}

// Newest is the highest run number that was published; every number from 1 to
// it is a run, published or not (then Info says so).
func (s *Store) Newest() Ref {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Ref(s.index.newest)
}

// Record reads the public record as the owner sees it.
func (s *Store) Record(ref Ref) (*Record, error) {
	rec, _, err := s.recordFor(Caller{Owner: true}, uint32(ref))
	return rec, err
}

// recordFor reads the published record as the caller sees it.
func (s *Store) recordFor(c Caller, num uint32) (*Record, string, error) {
	m, ok := s.moment(num)
	if !ok {
		return nil, "", unknownRef(Ref(num))
	}
	if m.rec == nil {
		rec, err := s.readRecord(m.at)
		if isDamage(err) {
			s.foundDamage(num, err)
			m.run, _ = s.Info(Ref(num))
			rec, err = s.shellOf(num), nil
		}
		if err != nil {
			return nil, "", err
		}
		m.rec = rec
	}
	writer := c.Writer != "" && s.epochOf(num, c.Writer, m.rec.epoch) == m.rec.epoch
	actions := []string{}
	if !m.run.Damaged {
		actions = actionsOf(m.rec.phase, writer, c.owns())
	}
	return m.rec.public(m.run, m.heartbeat, actions), etag(m.run.Admission, m.run.Revision), nil
}

// moment is what is published of a run at one moment; rec is nil where the
// record is to be read at at.
type moment struct {
	run       Run
	heartbeat time.Time
	rec       *record
	at        place
}

func (s *Store) moment(num uint32) (m moment, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m.run, ok = s.index.run(num); !ok {
		return m, false
	}
	c, i := s.index.at(num)
	m.heartbeat, m.at = unixTime(c.heartbeat[i]), c.record[i]
	if l := s.acc.runs[num]; l != nil && l.pub != nil && l.pub.revision == m.run.Revision {
		m.rec = l.pub
	}
	return m, true
}
