package runs

import (
	"encoding/json"
	"slices"
)

// Safety says what it may do to run a tool call a second time.
type Safety string

// The classes, from harmless to worst.
const (
	ReadOnly      Safety = "read-only"  // has no effect
	Idempotent    Safety = "idempotent" // twice is as once
	Mutating      Safety = "mutating"   // twice is not as once
	UnknownSafety Safety = "unknown"    // nobody has said
)

var safeties = []Safety{ReadOnly, Idempotent, Mutating, UnknownSafety}

// ParseSafety reads a declared class from the JSON that it came as. Whatever is
// not exactly one of the classes (missing, misspelt, of another type) is
// unknown, the worst: a mistake in a declaration must not make a tool look
// harmless, and must not keep it from running either.
func ParseSafety(v json.RawMessage) Safety {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return UnknownSafety
	}
	return Safety(s).known()
}

func (s Safety) known() Safety {
	if slices.Contains(safeties, s) {
		return s
	}
	return UnknownSafety
}

// Worst is the worse of two classes.
func (s Safety) Worst(t Safety) Safety {
	return safeties[max(slices.Index(safeties, s.known()), slices.Index(safeties, t.known()))]
}

// lostTo is the pause of a run whose agent is lost. What was claimed counts,
// with its outcome or without: one cannot know what was to follow an effect.
func (rec *record) lostTo() Phase {
	if rec.Progress > 0 && !Safety(rec.Class).Replayable() {
		return PausedSideEffectUncertain
	}
	return PausedInterruption
}

// Replayable reports whether a call of this class may run again without an
// owner's word.
func (s Safety) Replayable() bool { return s == ReadOnly || s == Idempotent }
