package main

import (
	"errors"

	"github.com/spf13/pflag"

	"durafs/control"
)

// BindingOption names a provider.
type BindingOption struct {
	Provider, Model, Scope string
	Local                  bool
}

// AddFlags adds the flags that name a provider; whose says what it is to the
// run.
func (o *BindingOption) AddFlags(f *pflag.FlagSet, whose string) {
	f.StringVar(&o.Provider, "provider", "", "the provider that "+whose)
	f.StringVar(&o.Model, "model", "", "the provider's model")
	f.StringVar(&o.Scope, "scope", "", "the scope that the run needs to be granted there")
	f.BoolVar(&o.Local, "local", false, "the provider runs on this machine")
}

// binding is what the flags say, nil if they are not there.
func (o *BindingOption) binding() (*control.Binding, error) {
	if *o == (BindingOption{}) {
		return nil, nil
	}
	if o.Provider == "" {
		return nil, errors.New("--model, --scope and --local go with --provider")
	}
	return &control.Binding{Provider: o.Provider, Model: o.Model, Scope: o.Scope, Local: o.Local}, nil
}
