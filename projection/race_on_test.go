//go:build race

package projection

// poolKeeps: under the race detector a pool forgets now and then, on purpose.
const poolKeeps = false
