package runs

import (
	"bytes"
	"context"
	"errors"
	"io"

	"durafs/cas"
	"durafs/projection"
)

// artifactsInlineBytesMax bounds what of a projection's artifacts stands inline
// in the batch of its outcome; more of them go into packs, however small. An
// outcome must fit into one batch beside the largest record: 360 KiB of it, 256
// of the outcome, 256 of the projection, 40 of the names of artifacts.
const artifactsInlineBytesMax = 64 << 10

// project gives an outcome its projection: the candidate's, or the sentinel
// where there is none, it is refused, or its artifacts cannot be stored. It
// returns the entries of the artifacts, which the batch of the outcome makes
// the run's: until then nothing refers to what was stored, and it is reclaimed
// like everything that nothing refers to.
func (s *Store) project(ctx context.Context, num uint32, runID string, o *outcome, candidate []byte) []entry {
	o.projection = []byte(projection.Sentinel)
	if candidate == nil {
		return nil
	}
	adm, err := s.admit(num, runID, o.Call, candidate)
	if err == nil {
		if n := artifactBytes(adm); n > 0 {
			err = s.noRoomNow(num, n, "projection")
		}
	}
	if err == nil {
		var entries []entry
		if entries, err = s.keepArtifacts(ctx, num, adm); err == nil {
			o.projection = adm.Encoded
			return entries
		}
	}
	o.refused = err.Error()
	if _, ok := errors.AsType[*projection.Refusal](err); !ok && !overQuota(err) {
		s.logger.Warn("a projection was replaced by the sentinel", "run", runID, "call", o.Call, "error", err)
	}
	return nil
}

// admit makes of a candidate the durable form; it writes nothing.
func (s *Store) admit(num uint32, runID string, call uint64, candidate []byte) (*projection.Admission, error) {
	return projection.Admit(candidate, projection.Call{Run: runID, Number: call}, func(name string) (projection.Payload, bool, error) {
		f, err := s.findPayload(num, name)
		if err != nil || f == nil || !f.source.mayProject() {
			return projection.Payload{}, false, err
		}
		head, err := s.head(f.ref)
		return projection.Payload{B3: projection.Digest(f.ref.ID), Bytes: f.ref.Bytes, Head: head}, true, err
	})
}

// mayProject reports whether a projection may show a payload of this source:
// what an agent has put, and what another projection shows.
func (n sourceNumber) mayProject() bool {
	return n == numNamed || n == numToolResult || n == numProjection
}

// head is the first bytes of a payload, which tell an image's type.
func (s *Store) head(ref cas.Ref) ([]byte, error) {
	r, err := s.openRef(ref)
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(ref.Bytes, projection.HeadBytes))
	if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

// keepArtifacts makes a projection's images durable, and returns the entries
// that give them their names.
func (s *Store) keepArtifacts(ctx context.Context, num uint32, adm *projection.Admission) ([]entry, error) {
	entries := make([]entry, 0, len(adm.Artifacts))
	room := artifactsInlineBytesMax
	for i := range adm.Artifacts {
		a := &adm.Artifacts[i]
		ref, err := s.keepArtifact(ctx, num, a, room)
		if err != nil {
			return nil, err
		}
		if ref.ID != cas.ID(a.B3) || ref.Bytes != a.Bytes {
			return nil, errors.New("runs: an artifact was stored with other bytes than were admitted")
		}
		room -= len(ref.Inline)
		p := payload{name: a.Name, contentType: string(a.MediaType), source: numProjection, ref: ref}
		entries = append(entries, p.entry(num))
	}
	return entries, nil
}

// keepArtifact stores an image, or finds it among what the run has; room is how
// much may be inline.
func (s *Store) keepArtifact(ctx context.Context, num uint32, a *projection.Artifact, room int) (cas.Ref, error) {
	data := a.Data
	if data == nil {
		f, err := s.findPayload(num, a.From)
		switch {
		case err != nil:
			return cas.Ref{}, err
		case f == nil:
			return cas.Ref{}, errors.New("runs: a payload that was admitted is not there any more")
		case len(f.ref.Inline) <= room:
			return f.ref, nil // it shares the chunks
		}
		data = f.ref.Inline
	}
	if len(data) > room {
		return s.cas.PutApart(ctx, bytes.NewReader(data))
	}
	return s.cas.Put(ctx, bytes.NewReader(data))
}

// artifactBytes is what a projection's artifacts count for.
func artifactBytes(adm *projection.Admission) (n int64) {
	for i := range adm.Artifacts {
		n += adm.Artifacts[i].Bytes
	}
	return n
}

// noRoomForArtifacts is noRoom for those of an outcome, which itself always has
// room.
func (s *Store) noRoomForArtifacts(l *live, artifacts []entry) *Refusal {
	if len(artifacts) == 0 || s.quota == (quota{}) {
		return nil
	}
	n := int64(0)
	for i := range artifacts {
		n += artifacts[i].counts(0)
	}
	return s.noRoomFor(l.bytes, n, "projection")
}
