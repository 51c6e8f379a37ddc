// Durafs keeps what agents do: an append-only, crash-safe store for the runs
// of agents and of any other command, browsed as files.
//
// Each command is a file of this package: newXCommand says how it is called,
// XOptions what it can be told, runX what it does. Everything that more than
// one command needs stands in app.go (what a command works with), exit.go
// (the codes that it ends with) and explain.go (what errors mean and what to
// do next).
package main

import "os"

func main() { os.Exit(run(os.Args[1:])) }
