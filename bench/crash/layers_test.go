//go:build mutants

package crash

// layer is one way of harming a driver.
type layer struct {
	name string
	run  func(*Driver, Config) Report
}

// layers are all of them.
var layers = []layer{{"L1", L1}, {"L2", L2}, {"L7", L7}}
