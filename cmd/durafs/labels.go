package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"durafs/control"
)

// labelFlag collects --label KEY=VALUE.
type labelFlag map[string]string

// String is for help texts.
func (l *labelFlag) String() string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(*l)) {
		s = append(s, k+"="+(*l)[k])
	}
	return strings.Join(s, ",")
}

// Set takes one KEY=VALUE; the last of one key counts.
func (l *labelFlag) Set(s string) error {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" {
		return errors.New("a label is KEY=VALUE")
	}
	if *l == nil {
		*l = labelFlag{}
	}
	(*l)[key] = value
	return nil
}

// Type is for help texts.
func (l *labelFlag) Type() string { return "KEY=VALUE" }

// StartOptions says what a new run is.
type StartOptions struct {
	ID     string
	Thread string
	Parent string
	Labels labelFlag
	Lease  time.Duration
	Target string
	// Message is the user's turn, a JSON value or else a text.
	Message  string
	Lock     string
	LockWait time.Duration
}

// AddFlags adds the flags that describe a new run; lease is their default.
func (o *StartOptions) AddFlags(f *pflag.FlagSet, lease time.Duration) {
	f.StringVar(&o.ID, "id", "", "the run's id: a lower-case UUID, or exec_NAME (default: a new one)")
	f.StringVar(&o.Thread, "thread", "", "the thread that the run belongs to")
	f.StringVar(&o.Parent, "parent", "", "the run that delegated to this one")
	f.Var(&o.Labels, "label", "a label of the run, KEY=VALUE (may be repeated)")
	f.StringVar(&o.Target, "target", "", "the target whose journal tells of the run (default: master)")
	f.StringVar(&o.Message, "message", "", "the user's turn, for the thread: a JSON value, or a text")
	f.StringVar(&o.Lock, "lock", "", "a name that only one active run holds at a time")
	f.DurationVar(&o.LockWait, "lock-wait", 0, "how long to wait for the lock")
	f.DurationVar(&o.Lease, "lease", lease, "how long the run may be silent before it counts as interrupted; 0: for ever")
}

// request is the start that o describes.
func (o *StartOptions) request() (control.StartRequest, error) {
	if o.Lease < 0 {
		return control.StartRequest{}, fmt.Errorf("--lease %v is negative", o.Lease)
	}
	labels := maps.Clone(map[string]string(o.Labels))
	if o.Thread != "" {
		if labels == nil {
			labels = map[string]string{}
		}
		labels["thread"] = o.Thread
	}
	lease := o.Lease.Milliseconds()
	if o.LockWait < 0 {
		return control.StartRequest{}, fmt.Errorf("--lock-wait %v is negative", o.LockWait)
	}
	return control.StartRequest{
		ID: o.ID, Labels: labels, Parent: o.Parent, LeaseMS: &lease, Target: o.Target, Message: messageJSON(o.Message),
		Lock: o.Lock, LockWaitMS: o.LockWait.Milliseconds(),
	}, nil
}

// messageJSON is a user's turn from the command line: JSON as it is, anything
// else as a text; nil for none.
func messageJSON(s string) json.RawMessage {
	if s == "" || json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	b, _ := json.Marshal(s) // a string
	return b
}
