package cas

import (
	"errors"
	"testing"
)

func wantDamage(t testing.TB, err error, ref Ref) {
	t.Helper()
	var d *DamageError
	if !errors.As(err, &d) {
		t.Fatalf("want damage, got %v", err)
	}
	if d.File == "" || d.Reason == "" {
		t.Errorf("damage is not named: %+v", d)
	}
}
