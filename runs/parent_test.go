package runs

import "testing"

// TestParentOfAnother: a child has its parent's labels, but not those of a run
// that its starter could not list.
func TestParentOfAnother(t *testing.T) {
	w := newWorld(t)
	parent := w.start(StartRequest{Labels: Labels{"thread": "secret"}}) // of uid 7
	for _, c := range []struct {
		who  Caller
		want string
	}{
		{Caller{UID: 7}, "secret"},
		{Caller{UID: 1, Owner: true}, "secret"},
		{Caller{UID: 8}, ""},
	} {
		st, err := w.s.Start(ctx, c.who, StartRequest{Parent: parent.id})
		if err != nil || st.Record.Parent != parent.id || st.Record.Labels["thread"] != c.want {
			t.Errorf("%+v: %+v, %v", c.who, st.Record, err)
		}
	}
}
