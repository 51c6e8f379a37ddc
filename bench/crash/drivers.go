package crash

// Drivers are all of them.
func Drivers() []*Driver {
	return []*Driver{Append(), Roll(), Recycle(), Runs(), Payloads(), Chunks()}
}
