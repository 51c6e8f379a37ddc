// Package control is how programs talk to a durafs daemon: the types that
// travel, the errors that come back, a client, and a handle for one run.
//
// # The idea
//
// The daemon speaks HTTP/1.1 and JSON over a Unix socket, so everything here
// can be done with curl; the client adds what is tedious to get right by hand.
// It finds the socket, repeats what may be repeated and nothing else, and
// tells apart the three ways in which a request can fail: refused (a *Problem:
// nothing changed), never sent (the daemon is away: nothing changed), and
// unknown (ErrOutcomeUnknown: it may or may not have happened).
//
// A run outlives its daemon. A Run handle keeps the run's writer token in
// memory, beats for it, and when the daemon was restarted takes the run back
// (attach) and repeats what was not acknowledged, so that each row is in the
// log once:
//
//	var c control.Client
//	run, err := c.Run(ctx, control.StartRequest{Task: "tidy up"})
//	…
//	defer run.Close()
//	run.Log(ctx, map[string]any{"type": "note", "text": "hello"})
//	run.Settle(ctx, control.SettleRequest{Status: control.Success})
//
// The package imports nothing of the store.
package control

// APIVersion is what the Durafs-Api header of every answer carries. A new
// phase, source or code raises it; clients show what they do not know as it
// is.
const APIVersion = "1"

// Headers of the API. A writer token has a header of its own rather than
// Authorization, which proxies and debug logs like to treat as theirs.
const (
	HeaderAPI            = "Durafs-Api"
	HeaderWriter         = "Durafs-Writer"
	HeaderResume         = "Durafs-Resume" // the token of a run that was prepared to be resumed
	HeaderIdempotencyKey = "Idempotency-Key"
	HeaderLastEventID    = "Last-Event-ID"
)

// Content types of the API.
const (
	TypeJSON    = "application/json"
	TypeNDJSON  = "application/x-ndjson"
	TypeProblem = "application/problem+json"
	TypeEvents  = "text/event-stream"
)

// Environment variables that the client and the commands know.
const (
	// EnvSocket names the daemon's socket.
	EnvSocket = "DURAFS_SOCKET"
	// EnvWriter carries a run's writer token to what acts for it.
	EnvWriter = "DURAFS_WRITER"
	// EnvResume carries the resume token of a run to what dispatches it.
	EnvResume = "DURAFS_RESUME"
	// EnvRunID carries a run's id.
	EnvRunID = "DURAFS_RUN_ID"
)
