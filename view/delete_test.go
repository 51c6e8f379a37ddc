package view_test

import (
	"testing"

	"durafs/runs"
	"durafs/view"
)

// TestDeletedPayload: a payload that was deleted is not found, in any way, from
// when that is told; and whoever remembers its name is told.
func TestDeletedPayload(t *testing.T) {
	s, v := sample()
	s.Put(3, "there", runs.SourceNamed, []byte("x"))
	a, err := v.Lookup(view.PayloadsDir(3), "there")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Attr(a.Node); err != nil {
		t.Fatal(err)
	}
	open, err := v.Open(a.Node)
	if err != nil {
		t.Fatal(err)
	}
	told := map[view.Effect]bool{}
	s.Listen(func(changes []runs.Change) {
		for _, c := range changes {
			v.Effects(c, func(e view.Effect) { told[e] = true })
		}
	})
	s.DeletePayload(3, "there")
	for _, e := range []view.Effect{
		{What: view.StaleName, Node: view.PayloadsDir(3), Name: "there"}, {What: view.StaleAttr, Node: view.PayloadsDir(3)},
	} {
		if !told[e] {
			t.Errorf("%+v is not told in %v", e, told)
		}
	}
	if _, err := v.Lookup(view.PayloadsDir(3), "there"); err != view.ErrNotExist {
		t.Errorf("looked up: %v", err)
	}
	if _, err := v.Attr(a.Node); err != view.ErrNotExist {
		t.Errorf("its attributes: %v", err)
	}
	if got, err := v.AttrOf(a.Node, open); err != nil || got.Size != 1 {
		t.Errorf("its attributes for who has it open: %+v, %v", got, err)
	}
	if _, err := v.Open(a.Node); err != view.ErrNotExist {
		t.Errorf("opened: %v", err)
	}
}
