package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"durafs/control"
)

// query is a request's query, read strictly: what a route does not know, and
// what is there twice, is refused rather than left unheard.
type query struct {
	v   url.Values
	err error
}

// query parses the query of a route that knows names; those in many may
// repeat.
func (r *request) query(names []string, many ...string) *query {
	if r.URL.RawQuery == "" {
		return &query{}
	}
	v, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{v: v}
	if err != nil {
		q.bad("", "the query cannot be read: "+err.Error())
	}
	for name, values := range v {
		switch {
		case slices.Contains(many, name):
		case !slices.Contains(names, name):
			q.bad(name, fmt.Sprintf("this route has no parameter %q; it has %s", bounded(name, 100), strings.Join(append(names, many...), ", ")))
		case len(values) > 1:
			q.bad(name, "the parameter is there more than once")
		}
	}
	return q
}

func (q *query) bad(name, detail string) {
	if q.err != nil {
		return
	}
	p := problem(http.StatusBadRequest, control.CodeBadQuery, detail)
	p.Field = bounded(name, 100)
	q.err = p
}

func (q *query) str(name string) string { return q.v.Get(name) }

// num reads a number up to max; 0 if it is not there.
func (q *query) num(name string, max uint64) uint64 {
	s := q.v.Get(name)
	if s == "" && !q.v.Has(name) {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > max {
		q.bad(name, fmt.Sprintf("%q must be a whole number from 0 to %d", bounded(s, 100), max))
	}
	return n
}

func (q *query) flag(name string) bool {
	if !q.v.Has(name) {
		return false
	}
	switch q.v.Get(name) {
	case "1", "true", "":
		return true
	case "0", "false":
		return false
	}
	q.bad(name, "must be 1 or 0")
	return false
}
