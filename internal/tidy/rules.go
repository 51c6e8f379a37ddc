// Package tidy holds the rules of this house as tables; its tests check them.
//
// A compiler cannot know that a rename needs a sync, that time has one source,
// or which package may know which. So these rules stand here, each with what to
// use instead, and `go test ./internal/tidy` names file, line and remedy.
package tidy

// layers says which package may import which: only those of a lower layer. So
// packages of one layer do not know each other, and a package that is not here
// gets its place here first. A name that ends in "/..." stands for all below.
var layers = map[string]int{
	// Know nothing of this module. control is the clients' side: what travels
	// over the socket and no storage; importer parses what other programs wrote.
	"control":              0,
	"importer":             0,
	"bench/crash/blockdev": 0, // its tests run a store on it
	"internal/clock":       0,
	"internal/dirlock":     0,
	"internal/gentle":      0,
	"internal/jsonscan":    0, // where JSON tokens end
	"internal/mutant":      0,
	"internal/need":        0,
	"internal/tidy":        0,
	"internal/vfs":         0,

	"internal/ballast":        1,
	"internal/term":           1,
	"internal/vfs/vfstest":    1,
	"internal/vfs/simdisk":    1,
	"internal/durable":        1,
	"cmd/durafs/internal/...": 1,
	"examples/agent":          1, // what a user's program imports

	"segment":    2,
	"wal":        3, // wal and cas do not know each other
	"cas":        3,
	"projection": 3, // pure: no files, no clock
	"runs":       4,
	"store":      5, // opens one store: puts wal, cas and runs together
	"view":       5, // pure: a snapshot as a tree

	"view/viewtest":   6, // a store to test trees with
	"fusefs":          6,
	"control/server":  6,
	"internal/daemon": 7,
	"bench":           8,
	"bench/crash":     8,
	"cmd/durafs":      9,
}

// importRule lets only some packages import something from outside.
type importRule struct {
	// path is the import; with "/..." all below too.
	path string
	// only these packages may; not those (nil: none is excluded).
	only, not []string
	instead   string
}

var importRules = []importRule{
	{
		path:    "github.com/hanwen/go-fuse/...",
		only:    []string{"fusefs", "bench/crash/blockdev"},
		instead: "package view has the tree without a mount",
	},
	{
		path:    "net/http",
		only:    []string{"control", "control/server", "internal/daemon", "bench"},
		instead: "control.Client speaks to the daemon",
	},
	{
		path:    "github.com/prometheus/...",
		only:    []string{"internal/daemon"},
		instead: "count in a plain struct; internal/daemon collects it",
	},
	{
		path:    "github.com/spf13/...",
		only:    []string{"cmd/durafs"},
		instead: "commands are in cmd/durafs; take options as a struct",
	},
	{
		path:    "os",
		not:     []string{"segment", "wal", "cas", "runs", "projection", "view", "importer", "internal/ballast", "internal/durable"},
		instead: "the file system is a vfs.FS that the caller gives; errors are in io/fs",
	},
	{
		path:    "net",
		not:     []string{"segment", "wal", "cas", "runs", "projection", "store", "view", "fusefs", "importer", "internal/vfs", "internal/durable"},
		instead: "only control, the daemon and what measures them use sockets",
	},
	{
		path:    "math/rand",
		only:    []string{},
		instead: "math/rand/v2, or crypto/rand for what must not be guessed",
	},
	{
		path:    "io/ioutil",
		only:    []string{},
		instead: "io and os",
	},
}

// callRule lets only some packages call some functions of a package.
type callRule struct {
	path  string
	names []string
	// only these packages or files may; why stands beside each.
	only    []string
	instead string
}

var callRules = []callRule{
	{
		path:  "os",
		names: []string{"WriteFile", "Rename", "Create", "Truncate", "Mkdir", "MkdirAll"},
		only: []string{
			"internal/vfs",               // is the operating system's
			"internal/need",              // makes file systems to test on
			"internal/daemon/sockets.go", // where sockets and links to them stand
			"bench",                      // measures the bare disk, and its store is thrown away
			"bench/crash",                // keeps a failure for a replay
			"cmd/durafs",                 // files beside the store that users ask for
			"cmd/durafs/internal/spool",  // rows that wait for the daemon; not the store's
			"examples/agent",             // files that its tools write
		},
		instead: "durable.WriteFile, durable.Rename, durable.CreateDir, or a method of vfs.FS",
	},
	{
		path:    "time",
		names:   []string{"Now", "Since", "Until"},
		only:    []string{"internal/clock", "bench", "bench/crash"},
		instead: "a clock.Clock that the caller gives (clock.System in the end)",
	},
	{
		path:    "time",
		names:   []string{"Sleep"},
		only:    []string{"bench"},
		instead: "a select on a timer and on what may end the wait",
	},
	{
		path:    "os",
		names:   []string{"Exit"},
		only:    []string{"cmd/durafs/main.go", "examples/agent/main.go"},
		instead: "return an error; main knows the exit codes",
	},
	{
		path:    "log",
		names:   []string{"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf"},
		only:    []string{},
		instead: "a *slog.Logger that the caller gives",
	},
}

// goroutineFiles are where goroutines start, each with how many and until when.
// Everywhere else code runs on its caller's goroutine.
var goroutineFiles = map[string]string{
	"cas/behind.go":                        "2, start writing packs back, and make them durable ahead of need; until Close",
	"cas/indexer.go":                       "1, reads footers of sealed packs and makes indexes; until Close",
	"cas/make.go":                          "at most 1, makes the next pack; until that is made",
	"cas/seal.go":                          "1, seals full packs; until Close",
	"cas/worker.go":                        "1 per core, hash and compress; until the put that uses them ends",
	"cmd/durafs/exec.go":                   "4, deliver, obey a cancel, copy two outputs; until the command and its delivery end",
	"cmd/durafs/exec_deliver.go":           "1, passes on a cancel; until the delivery ends",
	"cmd/durafs/internal/child/signals.go": "1, passes signals on; until the child ended",
	"cmd/durafs/serve.go":                  "1, looks after interrupted commands; until the daemon stops",
	"cmd/durafs/supervise_dispatch.go":     "1 per command that runs again, waits for it; until it has ended",
	"control/run.go":                       "2 per attached run, beat and listen for an abort; until Close",
	"control/run_outcome.go":               "1 per outcome, runs its projector; until that returns",
	"control/server/stream.go":             "2 per append stream, wait for groups and write answers; until the request ends",
	"control/window.go":                    "1 per stream, delivers; until Close",
	"fusefs/mount.go":                      "2 per mount, serve and notify, and 1 that waits for the mount to answer; until it is unmounted",
	"fusefs/mountpoint.go":                 "1, asks a mountpoint that may hang; until it answers",
	"internal/daemon/sinks.go":             "1, finds what sinks are to be told, and 4 that tell them; until the daemon stops",
	"internal/daemon/compact.go":           "1 that sweeps packs; until the daemon stops",
	"internal/daemon/life.go":              "1 per socket, and 1 that ends leases; until the daemon stops",
	"internal/daemon/reset.go":             "1 per reset, ends the former serving; until the reset is answered",
	"runs/bulk.go":                         "1 while a store is opened, enters half of the ids; until they are entered",
	"runs/projecting.go":                   "1 per outcome, reads its projection; until that has come or the request's body ends",
	"runs/readahead.go":                    "1 while a table is loaded, reads ahead; until it is closed",
	"wal/ahead.go":                         "1 while a tail is scanned, reads its next block; until it is read",
	"wal/apply.go":                         "1 while a tail is scanned, applies its batches; until the scan ends",
	"wal/restore.go":                       "8 while a log is opened, look at sealed files; until each was",
	"wal/log.go":                           "2 per log, the writer and the keeper of spare files; until Close",
}

// undocumented methods say all with their name, as the interface that asks for
// them does.
var undocumented = []string{"Error", "Unwrap", "Is", "String", "Len", "Less", "Swap"}

// Code that one screen does not hold is split by concept.
const (
	fileLinesMax = 600
	funcLinesMax = 100
)
