package runs

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"durafs/wal"
)

// settings are what owners have said once for the whole store: small sets, of
// which the newest entry of a name counts. They are an immutable value; a
// change makes a new one.
type settings struct {
	scopes  map[string]Grant
	targets map[string]Target
	classes map[string]Safety // of tools, by name
	// policies has the policy of retention, as it was written: what of it counts
	// is decided when it is read.
	policies map[string]json.RawMessage
}

// Bounds of the settings.
const (
	ScopesMax      = 10_000
	TargetsMax     = 10_000
	ToolClassesMax = 10_000
)

// The sets there are.
const (
	setScope  = "scope"
	setTarget = "target"
	setClass  = "tool-class"
	setPolicy = "policy"
)

// setting is the body of a setting entry, JSON: a name in a set and its value,
// null where it is taken out.
type setting struct {
	Set   string          `json:"set"`
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

func (st *setting) entry() entry { return entry{kind: kindSetting, body: mustJSON(st), setting: st} }

func parseSetting(e entry) (*setting, error) {
	st := new(setting)
	if err := json.Unmarshal(e.body, st); err != nil || st.Name == "" || e.run != 0 {
		return nil, badBatch("a setting of it is not as it should be")
	}
	return st, nil
}

// with is the settings after a change.
func (x *settings) with(st *setting) (*settings, error) {
	n := *x
	var err error
	switch st.Set {
	case setScope:
		n.scopes, err = put(x.scopes, st)
	case setTarget:
		n.targets, err = put(x.targets, st)
	case setClass:
		n.classes, err = put(x.classes, st)
	case setPolicy:
		n.policies, err = put(x.policies, st)
	default:
		err = badBatch("there is no set %s", quote(st.Set))
	}
	return &n, err
}

func put[V any](m map[string]V, st *setting) (map[string]V, error) {
	n := maps.Clone(m)
	if n == nil {
		n = map[string]V{}
	}
	if string(st.Value) == "null" {
		if delete(n, st.Name); len(n) == 0 {
			return nil, nil // as if it had never been set
		}
		return n, nil
	}
	var v V
	if err := json.Unmarshal(st.Value, &v); err != nil {
		return nil, badBatch("the setting %s: %v", quote(st.Name), err)
	}
	n[st.Name] = v
	return n, nil
}

// classOf is the class that owners gave a tool; the best where they said
// nothing, since a claim's class is the worse of the two.
func (x *settings) classOf(tool string) Safety {
	if c, ok := x.classes[tool]; ok {
		return c.known()
	}
	return ReadOnly
}

// set changes a setting and returns when that is durable. prepare is asked
// inside the accept step for the change, in view of what is accepted: nil for
// none. Needs an owner.
func (s *Store) set(ctx context.Context, c Caller, prepare func(x *settings) (*setting, *Refusal)) error {
	if !c.owns() {
		return refuse(NotOwner, "only an owner changes what holds for the whole store")
	}
	return s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		st, r := prepare(s.acc.settings)
		if r != nil {
			return wal.Decision{After: s.acc.settingsLSN, Err: r}
		}
		if st == nil {
			return wal.Decision{After: s.acc.settingsLSN}
		}
		return s.acceptStore(lsn, newBatch(0, st.entry()))
	})
}

// owns reports whether the caller acts as an owner: who sends a writer token
// acts as that agent.
func (c Caller) owns() bool { return c.Owner && c.Writer == "" }

// SetToolClass lets a tool count as no better than safety, whatever its claims
// say; "" takes that back. Needs an owner.
func (s *Store) SetToolClass(ctx context.Context, c Caller, tool string, safety Safety) error {
	if err := badName("tool name", tool, badToolName(tool)); err != nil {
		return err
	}
	if safety != "" && safety.known() != safety {
		return fieldRefusal(BadName, "safety", "%s is no class of safety", quote(string(safety)))
	}
	return s.set(ctx, c, func(x *settings) (*setting, *Refusal) {
		st := &setting{Set: setClass, Name: tool, Value: json.RawMessage("null")}
		if safety != "" {
			st.Value = mustJSON(safety)
		}
		if x.classes[tool] == safety {
			return nil, nil
		}
		if _, ok := x.classes[tool]; ok {
			return st, nil
		}
		return st, roomFor(len(x.classes), ToolClassesMax, "tool classes")
	})
}

// ToolClasses is what owners have said of tools, by name. Needs an owner.
func (s *Store) ToolClasses(c Caller) (map[string]Safety, error) {
	if !c.owns() {
		return nil, refuse(NotOwner, "the tool classes are not this caller's to read")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.settings.classes, nil
}

func roomFor(have, limit int, what string) *Refusal {
	if have < limit {
		return nil
	}
	r := refuse(TooLarge, "there are %d %s, and the limit is %d", have, what, limit)
	r.Field, r.Size, r.Limit = what, int64(have), int64(limit)
	return r
}

// Grant is a scope that owners have granted.
type Grant struct {
	Scope string `json:"scope"`
	ByUID uint32 `json:"by_uid"`
}

// GrantScope grants a scope, durably, or takes it back: a run that is bound to
// exactly that scope may be activated, and those that wait for it are offered to
// watchers. Granting it again changes nothing but that. Needs an owner.
func (s *Store) GrantScope(ctx context.Context, c Caller, scope string, grant bool) error {
	if scope == "" || len(scope) > BindingBytesMax || badKey(scope[:min(len(scope), NameBytesMax)]) != "" {
		return fieldRefusal(BadName, "scope", "the scope %s is empty, longer than %d bytes or has control characters", quote(scope), BindingBytesMax)
	}
	err := s.set(ctx, c, func(x *settings) (*setting, *Refusal) {
		if _, ok := x.scopes[scope]; ok == grant {
			return nil, nil
		}
		if !grant {
			return &setting{setScope, scope, json.RawMessage("null")}, nil
		}
		return &setting{setScope, scope, mustJSON(Grant{scope, c.UID})}, roomFor(len(x.scopes), ScopesMax, "scopes")
	})
	if err == nil && grant {
		s.offerWaiting(scope)
	}
	return err
}

// offerWaiting offers the runs that wait for a scope.
func (s *Store) offerWaiting(scope string) {
	s.mu.RLock()
	nums := s.index.inPhase(PausedPermission)
	s.mu.RUnlock()
	for _, num := range nums {
		rec, err := s.current(num)
		if err == nil && rec != nil && rec.phase == PausedPermission && rec.Binding != nil && rec.Binding.Scope == scope {
			s.offer(num)
		}
	}
}

// Scopes lists what is granted, sorted. Needs an owner.
func (s *Store) Scopes(c Caller) ([]Grant, error) {
	if !c.owns() {
		return nil, refuse(NotOwner, "the scopes are not this caller's to read")
	}
	s.mu.RLock()
	x := s.index.settings
	s.mu.RUnlock()
	grants := []Grant{}
	for _, k := range slices.Sorted(maps.Keys(x.scopes)) {
		grants = append(grants, x.scopes[k])
	}
	return grants, nil
}
