package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"durafs/control"
	"durafs/internal/term"
)

// exitCode is the code for an error that does not carry one.
func exitCode(err error) int {
	if errors.Is(err, control.ErrAway) || errors.Is(err, control.ErrNoSocket) {
		return exitAway
	}
	return exitFailed
}

// nextSteps says what to do about a refusal, by its code.
var nextSteps = map[string]string{
	control.CodeAttachRequired: "the daemon was restarted, or the run was silent for too long: durafs run attach RUN takes it back",
	control.CodeStaleWriter:    "another writer has taken over the run since; what this one wrote is kept in the run's file late",
	control.CodeFinished:       "the run has ended; start another one",
	control.CodeCancelled:      "its owner has cancelled it: stop what is left of it, and say so: durafs run abort RUN",
	control.CodeAttachWindow:   "wait, or take the run from its agent: --force",
	control.CodeUnaccounted:    "durafs show RUN lists the open calls: --decide CALL=retry lets one run again, --decide CALL=close gives it up",
	"revision-mismatch":        "the run has changed since: look at it (durafs show RUN) and decide anew",
	"binding-mismatch":         "--provider and its flags name what is on offer, --allow-binding accepts it",
	"permission-missing":       "durafs scopes grant SCOPE, then resume it again",
	"writer-required":          "put the token that durafs run start printed into $" + control.EnvWriter,
	control.CodeNotOwner:       "use the owner's socket (control.sock) as the user that runs the daemon",
	control.CodeNoSpace:        "free some space; writes succeed again by themselves",
	control.CodePoisoned:       "the disk failed: look at the daemon's log and the kernel's, then restart the daemon",
	control.CodeReadOnly:       "durafs status tells why, and durafs verify what is damaged; what is left can be read",
	"run-damaged":              "durafs verify names what is lost of the run; what is left of it can be read, and other runs are not touched",
	control.CodeDegraded:       "durafs status tells why",
	control.CodeDamaged:        "durafs verify names what is damaged",
	control.CodeBusy:           "try again in a moment",
	control.CodeShuttingDown:   "the daemon is stopping; start it again",
	codeNotFound:               "durafs ls lists the runs that there are",
}

// codeNotFound is the domain's code for a run that is not there, or not the caller's to see.
const codeNotFound = "unknown-run"

// nextStep says what to do about err, "" if there is nothing to say.
func nextStep(err error) string {
	switch {
	case errors.Is(err, control.ErrNoSocket), errors.Is(err, control.ErrAway):
		return "start the daemon (durafs serve --store DIR), or name its socket: --socket PATH or $" + control.EnvSocket
	case errors.Is(err, control.ErrOutcomeUnknown):
		return "look before repeating it: durafs show RUN"
	case errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, os.ErrPermission):
		return "check who owns it, and as whom you run"
	}
	return nextSteps[control.Code(err)]
}

// oneLine is what err says, fit for a terminal. The address of what was
// refused by a socket is in it already.
func oneLine(err error) string {
	return term.Safe(strings.TrimSpace(err.Error()))
}
