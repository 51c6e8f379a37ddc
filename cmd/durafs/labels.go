package main

import (
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
}

// AddFlags adds the flags that describe a new run; lease is their default.
func (o *StartOptions) AddFlags(f *pflag.FlagSet, lease time.Duration) {
	f.StringVar(&o.ID, "id", "", "the run's id: a lower-case UUID, or exec_NAME (default: a new one)")
	f.StringVar(&o.Thread, "thread", "", "the thread that the run belongs to")
	f.StringVar(&o.Parent, "parent", "", "the run that delegated to this one")
	f.Var(&o.Labels, "label", "a label of the run, KEY=VALUE (may be repeated)")
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
	return control.StartRequest{ID: o.ID, Labels: labels, Parent: o.Parent, LeaseMS: &lease}, nil
}
