package daemon

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"durafs/runs"
)

// Sink is a command that is told of each run's end. Its name is what its
// deliveries are kept under: a command that changes keeps them if its name stays.
type Sink struct {
	Name    string
	Command string // for /bin/sh
}

// SinkTimeoutDefault is how long a sink's command may take.
const SinkTimeoutDefault = time.Minute

// ackTimeout bounds how long a stop waits for what a sink has taken to be
// recorded.
const ackTimeout = 5 * time.Second

// named is a sink that is given with its name. Names are lower-case, so that a
// command which begins with a variable of the environment is not taken for one.
var named = regexp.MustCompile(`^([a-z][a-z0-9_.-]{0,63})=((?s).*)$`)

// ParseSinks reads sinks as NAME=COMMAND, or COMMAND, which then is the name.
func ParseSinks(specs []string) ([]Sink, error) {
	var sinks []Sink
	for _, spec := range specs {
		s := Sink{Name: spec, Command: spec}
		if m := named.FindStringSubmatch(spec); m != nil {
			s = Sink{Name: m[1], Command: m[2]}
		}
		if s.Command == "" {
			return nil, fmt.Errorf("there is no command in %q", spec)
		}
		sinks = append(sinks, s)
	}
	if err := runs.CheckSinks(sinkNames(sinks)); err != nil {
		return nil, fmt.Errorf("%w; give it a short one: name=command", err)
	}
	return sinks, nil
}

func sinkNames(sinks []Sink) []string {
	var names []string
	for _, s := range sinks {
		names = append(names, s.Name)
	}
	return names
}

// tellSinks begins to tell sinks what they are to be told, and returns how to end
// that: commands that run then are ended, and run again after the next start.
func (l *life) tellSinks() (end func()) {
	if len(l.d.config.Sinks) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.deliver(ctx) }()
	return func() { cancel(); <-ended }
}

// deliver takes one delivery after the other, as the domain gives them, until ctx
// ends and the last command with it.
func (l *life) deliver(ctx context.Context) {
	var open sync.WaitGroup
	defer open.Wait()
	for ctx.Err() == nil {
		next, wait := l.store.Runs().NextDelivery()
		if next != nil {
			open.Go(func() { l.deliverOne(ctx, next) })
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-l.store.Runs().DeliveryWake():
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// deliverOne runs a sink's command, and records what became of it.
func (l *life) deliverOne(ctx context.Context, next *runs.Delivery) {
	failure := l.d.runSink(ctx, next)
	if failure != "" && ctx.Err() != nil { // we have ended it
		l.store.Runs().GiveBack(next)
		return
	}
	ack, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stopping := context.AfterFunc(ctx, func() { time.AfterFunc(ackTimeout, cancel) })
	defer stopping()
	log := l.d.log.With("delivery", next.ID, "sink", next.Sink, "attempt", next.Attempt)
	if failure == "" {
		if err := l.store.Runs().Delivered(ack, next); err != nil {
			log.Warn("a sink was told, and that could not be recorded: it will be told again", "err", err)
		}
		return
	}
	parked, err := l.store.Runs().Undelivered(ack, next, failure)
	switch {
	case err != nil:
		log.Warn("a sink failed", "failure", failure, "err", err)
	case parked:
		log.Warn("a sink has failed too often; durafs outbox lists what it was to be told", "failure", failure)
	default:
		log.Info("a sink failed, and is tried again", "failure", failure)
	}
}
