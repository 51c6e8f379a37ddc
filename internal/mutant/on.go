//go:build mutants

package mutant

import "sync/atomic"

var active atomic.Int32

// On says whether the fault is switched on.
func On(n Name) bool { return active.Load() == int32(n) }

// Use switches one fault on, and all others off; None switches all off.
func Use(n Name) { active.Store(int32(n)) }
