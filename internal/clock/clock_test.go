package clock

import (
	"testing"
	"time"
)

func TestSystem(t *testing.T) {
	before := time.Now()
	now, boot := System.Now(), System.Boot()
	if now.Location() != time.UTC {
		t.Errorf("Now is in %v, want UTC", now.Location())
	}
	if now.Before(before.Add(-time.Second)) || now.After(before.Add(time.Minute)) {
		t.Errorf("Now = %v, the time is %v", now, before)
	}
	if boot <= 0 {
		t.Errorf("Boot = %v", boot)
	}
	for range 1000 {
		next := System.Boot()
		if next < boot {
			t.Fatalf("Boot went back from %v to %v", boot, next)
		}
		boot = next
	}
}

func TestFake(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	f := NewFake(start)
	boot := f.Boot()
	check := func(what string, wall, since time.Duration) {
		t.Helper()
		if got := f.Now().Sub(start); got != wall {
			t.Errorf("%s: the wall clock moved %v, want %v", what, got, wall)
		}
		if got := f.Boot() - boot; got != since {
			t.Errorf("%s: boot time moved %v, want %v", what, got, since)
		}
	}
	check("at first", 0, 0)
	if f.Now().Location() != time.UTC || boot == 0 {
		t.Errorf("begins at %v, %v", f.Now(), boot)
	}
	f.Advance(time.Minute)
	check("Advance", time.Minute, time.Minute)
	f.JumpWall(-time.Hour)
	check("JumpWall", time.Minute-time.Hour, time.Minute)
	f.AdvanceBoot(time.Second)
	check("AdvanceBoot", time.Minute-time.Hour, time.Minute+time.Second)

	defer func() {
		if recover() == nil {
			t.Error("boot time went back without a panic")
		}
	}()
	f.AdvanceBoot(-1)
}
