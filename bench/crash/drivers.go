package crash

// Drivers are all of them.
func Drivers() []*Driver {
	return []*Driver{Append(), Roll(), Seal(), Recycle(), Runs(), Payloads(), Chunks(), Cancel(), Undo()}
}
