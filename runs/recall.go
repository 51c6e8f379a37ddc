package runs

// recallBytesMax bounds how much of the log is read to bring changes back.
const recallBytesMax = 64 << 20

// recall brings the changes behind an LSN back into the feed, from the log: an
// open does not read what is sealed, and a watcher may have seen up to there.
// Where that is too much, or cannot be read, the feed stays as it is.
func (s *Store) recall(after uint64) {
	floor := s.feed.begins()
	pos, ok := s.log.Near(after + 1)
	if !ok || after >= floor {
		return
	}
	var events []feedEvent
	var b batch
	for read, reached := 0, false; ; {
		f, next, err := s.log.ReadBatch(pos, nil)
		if err != nil || !reached && f.LSN > after+1 {
			return
		}
		if read += len(f.Payload); read > recallBytesMax || len(events) > FeedEventsMax {
			return
		}
		if f.LSN > after {
			reached = true
			if b.decode(f.Payload) != nil {
				return
			}
			events = append(events, feedOf(&b, f.LSN, func(n int) place { return makePlace(f.Pos, n) })...)
		}
		if f.LSN >= floor {
			break
		}
		pos = next
	}
	s.feed.prepend(after, floor, events)
}

// begins is the LSN up to which the ring knows no changes.
func (f *feed) begins() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.floor
}

// prepend puts the changes behind after, up to floor, before the others, if
// floor is still where the ring begins and there is room.
func (f *feed) prepend(after, floor uint64, events []feedEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.floor != floor || len(events)+len(f.events) > FeedEventsMax || f.first < uint64(len(events)) {
		return
	}
	f.events = append(events, f.events...)
	f.first -= uint64(len(events))
	f.floor = after
}
