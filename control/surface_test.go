package control

import "testing"

// TestSurfaceOwner: a drawing that comes late is left out.
func TestSurfaceOwner(t *testing.T) {
	var o SurfaceOwner
	drawn := ""
	draw := func(token uint64, what string) bool {
		return o.Commit(token, func() { drawn += what })
	}
	if o.Owns(0) || draw(0, "nobody ") {
		t.Error("nobody owns it")
	}
	first := o.Claim()
	if !o.Owns(first) || !draw(first, "first ") {
		t.Error("the first owns it")
	}
	second := o.Claim()
	if second <= first || o.Owns(first) || draw(first, "late ") || !draw(second, "second") {
		t.Error("the second owns it now")
	}
	if drawn != "first second" {
		t.Errorf("drawn: %q", drawn)
	}
}
