package runs

// phaseNames are the words of the API, by Phase.
var phaseNames = [...]string{
	PhaseNone:                 "",
	Running:                   "running",
	Settling:                  "settling",
	PausedInterruption:        "paused-interruption",
	PausedSideEffectUncertain: "paused-side-effect-uncertain",
	PausedPermission:          "paused-permission",
	PausedProviderChange:      "paused-provider-change",
	ResumeDispatching:         "resume-dispatching",
	CancelRequested:           "cancel-requested",
	Cancelled:                 "cancelled",
	Terminal:                  "terminal",
}

const phaseCount = len(phaseNames)

func (p Phase) String() string {
	if int(p) < phaseCount {
		return phaseNames[p]
	}
	return "phase-?"
}

// ParsePhase is the inverse of Phase.String.
func ParsePhase(s string) (Phase, bool) {
	for p := Running; int(p) < phaseCount; p++ {
		if phaseNames[p] == s {
			return p, true
		}
	}
	return PhaseNone, false
}

// active phases belong to an agent of this boot.
func (p Phase) active() bool { return p == Running || p == Settling || p == CancelRequested }

// waitsForAgent are the phases in which the agent whose start was never
// answered can still take its run: it runs, or needs no more than an attach.
func (p Phase) waitsForAgent() bool { return p == Running || p == PausedInterruption }

func (p Phase) sealed() bool { return p == Terminal || p == Cancelled }

// event is what may happen to a run.
type event uint8

const (
	evBeat      event = iota
	evWrite           // a row, a payload or a claim
	evOutcome         // what became of a claim
	evSettle          // the agent says how the run ended
	evPause           // the agent says that it cannot go on
	evLost            // a restart, or the lease ran out
	evCancel          // the owner
	evPrepare         // a resume is prepared
	evAttach          // the agent is still there
	evActivate        // the dispatcher's token is used
	evFail            // the dispatch failed
	evProjected       // the outbox was processed to its end
	evRollback        // the admission is undone
	eventCount
)

var eventNames = [eventCount]string{
	"beat", "write", "outcome", "settle", "pause", "lost", "cancel",
	"prepare", "attach", "activate", "fail", "projected", "rollback",
}

func (e event) String() string { return eventNames[e] }

// rule says what a phase makes of an event: refuse it with a code, or take it,
// as adopt (compare with what is there), as late, or as a change of state to
// one of the phases in to (none: the phase stays).
type rule struct {
	verdict verdict
	code    Code
	to      []Phase
}

type verdict uint8

const (
	refused verdict = iota
	taken
	adopted // the same as before answers as before, anything else conflicts
	late    // kept in the file of late writes, refused otherwise
)

func no(c Code) rule       { return rule{code: c} }
func yes(to ...Phase) rule { return rule{verdict: taken, to: to} }
func keptLate(c Code) rule { return rule{verdict: late, code: c} }
func sameOnly(c Code) rule { return rule{verdict: adopted, code: c} }

// filled fills a row: what it does not say is refused.
func filled(r ruleRow) ruleRow {
	for e := range r {
		if r[e].verdict == refused && r[e].code == "" {
			r[e].code = WrongPhase
		}
	}
	return r
}

type ruleRow = [eventCount]rule

// transitions is the life of a run: what each phase takes from the holder of
// the current token, from an owner, and from the store itself. A pair that is
// not written here is refused with wrong-phase and writes nothing.
var transitions = [phaseCount]ruleRow{
	Running: filled(ruleRow{
		evBeat: yes(), evWrite: yes(), evOutcome: yes(),
		evSettle:   yes(Settling),
		evPause:    yes(PausedPermission, PausedProviderChange),
		evLost:     yes(PausedInterruption, PausedSideEffectUncertain, Settling),
		evCancel:   yes(CancelRequested),
		evRollback: yes(PhaseNone),
	}),
	Settling: filled(ruleRow{
		evBeat: yes(), evWrite: no(Finished), evOutcome: keptLate(Finished),
		evSettle:    sameOnly(SettleConflict),
		evCancel:    no(Finished),
		evProjected: yes(Terminal),
	}),
	PausedInterruption: filled(ruleRow{
		evBeat: no(AttachRequired), evWrite: no(AttachRequired), evOutcome: no(AttachRequired), evSettle: no(AttachRequired),
		evPause:   no(AttachRequired),
		evCancel:  yes(CancelRequested),
		evPrepare: yes(ResumeDispatching),
		evAttach:  yes(Running),
	}),
	PausedSideEffectUncertain: filled(ruleRow{
		evBeat: no(AttachRequired), evWrite: no(AttachRequired), evOutcome: no(AttachRequired), evSettle: no(AttachRequired),
		evPause:   no(AttachRequired),
		evCancel:  yes(CancelRequested),
		evPrepare: yes(ResumeDispatching),
		evAttach:  yes(Running),
	}),
	PausedPermission: filled(ruleRow{
		evOutcome: keptLate(WrongPhase),
		evCancel:  yes(CancelRequested),
		evPrepare: yes(ResumeDispatching),
	}),
	PausedProviderChange: filled(ruleRow{
		evOutcome: keptLate(WrongPhase),
		evCancel:  yes(CancelRequested),
		evPrepare: yes(ResumeDispatching),
	}),
	ResumeDispatching: filled(ruleRow{
		evOutcome:  keptLate(WrongPhase),
		evLost:     yes(PausedInterruption, PausedSideEffectUncertain, PausedPermission, PausedProviderChange, Settling),
		evCancel:   yes(CancelRequested),
		evActivate: yes(Running, PausedPermission, PausedProviderChange),
		evFail:     yes(PausedInterruption, PausedSideEffectUncertain, PausedPermission, PausedProviderChange, Settling),
	}),
	CancelRequested: filled(ruleRow{
		evBeat: yes(), evWrite: keptLate(CancelRequestedCode), evOutcome: yes(), evSettle: keptLate(CancelRequestedCode),
		evCancel:    no(CancelRequestedCode),
		evProjected: yes(Cancelled),
	}),
	Cancelled: finished,
	Terminal:  finished,
}

var finished = filled(ruleRow{
	evBeat: no(Finished), evWrite: no(Finished), evOutcome: keptLate(Finished),
	evSettle: sameOnly(SettleConflict),
	evPause:  no(Finished), evCancel: no(Finished), evAttach: no(Finished), evPrepare: no(Finished),
})

// actions are what a caller can do to a run, each with the event that the table
// has to take for it.
var actions = []struct {
	ev    event
	name  string
	owner bool // it is an owner's, else it is the agent's
}{
	{evBeat, "beat", false},
	{evWrite, "log", false},
	{evWrite, "payload", false},
	{evWrite, "claim", false},
	{evOutcome, "outcome", false},
	{evSettle, "settle", false},
	{evPause, "pause", false},
	{evAttach, "attach", false},
	{evCancel, "cancel", true},
	{evPrepare, "prepare", true},
	{evFail, "fail", true},
}

// actionsOf names what a caller may do now, by the table.
func actionsOf(p Phase, writer, owner bool) []string {
	names := []string{}
	for _, a := range actions {
		if (a.owner && owner || !a.owner && writer) && transitions[p][a.ev].verdict == taken {
			names = append(names, a.name)
		}
	}
	return names
}
