package main

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// dieAt is for the tests: the agent dies at this step, as hard as can be.
var (
	dieAt, _ = strconv.ParseInt(os.Getenv("AGENT_DIE_AT"), 10, 64)
	steps    atomic.Int64
)

// step stands wherever an agent might be killed. Otherwise it does nothing.
func step() {
	if steps.Add(1) == dieAt {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
