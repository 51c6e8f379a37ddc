//go:build !race

package runs

// callStep is how far apart the calls are that the crash tests end at.
const callStep = 1
