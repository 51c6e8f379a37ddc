package wal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// Batches are applied in their order, each with its own bytes, whatever
// becomes of the memory that they were given in.
func TestApplierKeepsOrder(t *testing.T) {
	const batches = 5000
	next := uint64(1)
	a := newApplier(func(f Frame) error {
		if want := fmt.Sprintf("batch %d", next); f.LSN != next || string(f.Payload) != want {
			t.Errorf("got LSN %d with %q, want %q", f.LSN, f.Payload, want)
		}
		next++
		return nil
	})
	defer a.stop()
	d := new(delivery)
	payload := make([]byte, 0, 20)
	for lsn := uint64(1); lsn <= batches; lsn++ {
		payload = fmt.Appendf(payload[:0], "batch %d", lsn)
		d.add(Frame{LSN: lsn, Payload: payload})
		if lsn%7 == 0 {
			var err error
			if d, err = a.give(d); err != nil || len(d.frames) != 0 || len(d.mem) != 0 {
				t.Fatal(d, err)
			}
		}
		if lsn%1000 == 0 {
			if err := a.wait(); err != nil || next != lsn-lsn%7+1 {
				t.Fatalf("after waiting at %d the next is %d, %v", lsn, next, err)
			}
		}
	}
}

// Behind the first failure nothing is applied, and everyone hears of it.
func TestApplierStopsAtAFailure(t *testing.T) {
	failed := errors.New("no such run")
	var applied []uint64
	a := newApplier(func(f Frame) error {
		if f.LSN == 3 {
			return failed
		}
		applied = append(applied, f.LSN)
		return nil
	})
	var err error
	for lsn := uint64(1); lsn <= 20 && err == nil; lsn++ {
		d := new(delivery)
		d.add(Frame{LSN: lsn, Payload: bytes.Repeat([]byte{1}, 100)})
		_, err = a.give(d)
	}
	if !errors.Is(err, failed) {
		t.Errorf("giving went on: %v", err)
	}
	a.stop()
	if len(applied) != 2 {
		t.Errorf("applied %v", applied)
	}
}
