package runs

import (
	"context"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Target is where a journal is kept: master, which is always there, or one that
// an owner has enrolled.
type Target struct {
	Name string `json:"name"`
	// Generation is raised by each enrolment and disenrolment: what was
	// admitted under another one does not reach the target any more.
	Generation uint64 `json:"generation"`
	Enrolled   bool   `json:"enrolled"`
	// Number tells targets apart for as long as the store lasts: 1, 2, … in the
	// order of their first enrolments, never reused; master has 0. It is what
	// the mount makes an inode of, and no caller is told it.
	Number uint32 `json:"number,omitempty"`
}

// ParseTarget checks the name of a target, agent:NAME, background:NAME,
// site:ORIGIN or master, and gives an origin its one spelling: scheme and host
// in lower case, the scheme's own port left out.
func ParseTarget(name string) (string, error) {
	kind, rest, ok := strings.Cut(name, ":")
	bad := goodName(strings.ReplaceAll(name, "/", "-"))
	switch {
	case bad != "":
	case name == targetMaster:
		return name, nil
	case ok && (kind == "agent" || kind == "background"):
		bad = goodName(rest)
	case ok && kind == "site":
		var origin string
		if origin, bad = canonicalOrigin(rest); bad == "" {
			return "site:" + origin, nil
		}
	default:
		bad = "is not master, agent:NAME, background:NAME or site:ORIGIN"
	}
	return name, badName("target", name, bad)
}

func canonicalOrigin(s string) (origin, bad string) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(s, "#") || u.Path != "" && u.Path != "/" {
		return "", "is no origin: scheme, host and port, nothing else"
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	standard := map[string]string{"http": "80", "https": "443"}[scheme]
	if standard == "" || host == "" || strings.ContainsAny(host, " %") || strings.HasSuffix(u.Host, ":") {
		return "", "is no origin of http or https"
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + ip.String() + "]"
	}
	if port = strings.TrimLeft(port, "0"); port != "" && port != standard {
		host += ":" + port
	}
	return scheme + "://" + host, ""
}

// target is the state of a target; master is always enrolled.
func (x *settings) target(name string) Target {
	if name == targetMaster {
		return Target{Name: name, Generation: 1, Enrolled: true}
	}
	t := x.targets[name]
	t.Name = name
	return t
}

// Enrol enrols a target, or disenrols it; what was written to its journal is
// kept either way. Doing so again changes nothing. Needs an owner.
func (s *Store) Enrol(ctx context.Context, c Caller, name string, enrolled bool) (Target, error) {
	name, err := ParseTarget(name)
	if err != nil {
		return Target{}, err
	}
	if name == targetMaster {
		return Target{}, fieldRefusal(BadName, "target", "the target master is always enrolled")
	}
	var now Target
	err = s.set(ctx, c, func(x *settings) (*setting, *Refusal) {
		now = x.target(name)
		if now.Enrolled == enrolled {
			return nil, nil
		}
		now.Enrolled = enrolled
		now.Generation++
		if now.Number == 0 {
			now.Number = uint32(len(x.targets)) + 1 // none is ever taken out
		}
		st := &setting{setTarget, name, mustJSON(now)}
		if _, ok := x.targets[name]; ok {
			return st, nil
		}
		return st, roomFor(len(x.targets), TargetsMax, "targets")
	})
	now.Number = 0
	return now, err
}

// Targets lists master and every target that was ever enrolled, sorted. Needs
// an owner.
func (s *Store) Targets(c Caller) ([]Target, error) {
	if !c.owns() {
		return nil, refuse(NotOwner, "the targets are not this caller's to read")
	}
	targets := s.JournalTargets()
	for i := range targets {
		targets[i].Number = 0
	}
	return targets, nil
}

// JournalTargets lists what Targets does, with the targets' numbers.
func (s *Store) JournalTargets() []Target {
	s.mu.RLock()
	x := s.index.settings
	s.mu.RUnlock()
	targets := []Target{x.target(targetMaster)}
	for _, k := range slices.Sorted(maps.Keys(x.targets)) {
		targets = append(targets, x.targets[k])
	}
	return targets
}

// JournalVersion changes with each change of a target's journal; 0 for one
// that was never written.
func (s *Store) JournalVersion(name string) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if j := s.index.journals[name]; j != nil {
		return j.version
	}
	return 0
}

// targetGone is why a run's journal rows go to master now: its target is not
// enrolled, or not as it was when the run was admitted; "" if it is.
func (x *settings) targetGone(rec *record) string {
	t := x.target(rec.Target)
	switch {
	case !t.Enrolled:
		return "the target is not enrolled any more"
	case rec.Target != targetMaster && t.Generation != rec.TargetGen:
		return "the target was enrolled anew since"
	}
	return ""
}

func targetNotEnrolled(name string) *Refusal {
	t := refuse(TargetNotEnrolled, "the target %s is not enrolled", quote(name))
	t.Field = "target"
	return t
}
