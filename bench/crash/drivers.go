package crash

// Drivers are all of them: first those of the log alone, which are judged by the
// hundred thousand, then those of a chunk store and of whole stores.
func Drivers() []*Driver {
	variants := append([]*Driver{Tiny(), Edges(), Large(), Padded(), Quiet(), Again(), Lent()}, Scripts(scriptsDrawn, scriptSeed)...)
	for _, d := range variants {
		d.Variant = true
	}
	all := append([]*Driver{Append(), Roll(), Seal(), Recycle(), Restarts(), Rewrite()}, variants...)
	for _, d := range all {
		d.States = logStates
	}
	return append(all, Runs(), Payloads(), Chunks(), Sweep(), Cancel(), Undo(), Bounded(), Compensate(), Delete(), Resume(), Effects(), Copies(), Reset(), Sinks())
}

const (
	// scriptsDrawn shapes are drawn from scriptSeed.
	scriptsDrawn = 4
	scriptSeed   = 1
	// logStates is how many states a driver of the log is to have judged.
	logStates = 67_000
)
