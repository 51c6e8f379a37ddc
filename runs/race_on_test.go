//go:build race

package runs

// callStep: the race detector makes each life some ten times slower; it sees
// the same code at every fifth call.
const callStep = 5
