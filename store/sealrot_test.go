package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"durafs/runs"
)

// TestSealOverRot: a batch of a run rots in a segment that is not sealed yet.
// The run is damaged, and stays so; segments go on being sealed, that one too;
// opens read footers, not all of the log; and every run is the same whether it
// is known from footers, from batches because the footers are gone, or from a
// log that was not sealed since.
func TestSealOverRot(t *testing.T) {
	for what, text := range map[string]string{
		"a row": `"row 3 of exec_a"`, "the start": `"task of exec_a"`, "the end": `"end of exec_a"`, "a payload": "exec_a2",
	} {
		t.Run(what, func(t *testing.T) { sealOverRot(t, text) })
	}
}

func sealOverRot(t *testing.T, text string) {
	dir := memoryDir(t)
	open := func(dir string) *Store {
		t.Helper()
		s, err := Open(t.Context(), dir, Options{SegmentBytesMax: 32 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(dir)
	before := sealedLife(t, s, "exec_before", 60)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = open(dir)
	ids := []string{before, sealedLife(t, s, "exec_b", 55), sealedLife(t, s, "exec_a", 4), sealedLife(t, s, "exec_c", 4)}
	image := filepath.Join(t.TempDir(), "s")
	// A copy may fall between a footer and its place in the MANIFEST.
	for copyTree(t, dir, image); !isWhole(t, image) || len(verify(t, image)) > 0; {
		copyTree(t, dir, image)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rotUnsealed(t, image, text)

	s = open(image)
	want := lookAt(t, s, ids)
	if d := s.Runs().Damage(); d.Runs != 1 || want["exec_b"].damaged || want["exec_c"].damaged {
		t.Fatalf("after the rot: %+v, %+v", d, want)
	}
	ids = append(ids, sealedLife(t, s, "exec_after", 60))
	want["exec_after"] = lookAt(t, s, ids)["exec_after"]
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if live := unsealed(t, image); len(live) > 0 {
		t.Fatalf("not sealed: %v", live)
	}
	for round, how := range []string{"by footers", "once more", "without footers"} {
		if round == 2 {
			withoutFooters(t, image)
		}
		s := open(image)
		got := lookAt(t, s, ids)
		for id, w := range want {
			if got[id] != w {
				t.Errorf("%s: %s is\n%+v\nand was\n%+v", how, id, got[id], w)
			}
		}
		if n := s.Recovery().Batches; round < 2 && n > 20 {
			t.Errorf("%s: %d batches were replayed", how, n)
		}
		if l := s.Recovery().Lost; len(l) != 1 || l[0].Run != "exec_a" && want["exec_a"].damaged {
			t.Errorf("%s: lost %+v", how, l)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if found := verify(t, image); !slices.ContainsFunc(found, func(f Finding) bool { return f.Run == "exec_a" }) {
		t.Errorf("verify finds %v", found)
	}
}

// sealedLife leads a run through some segments.
func sealedLife(t *testing.T, s *Store, id string, rows int) string {
	t.Helper()
	st, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: id, Task: "task of " + id, Labels: runs.Labels{"thread": "t-" + id}})
	if err != nil {
		t.Fatal(err)
	}
	agent := runs.Caller{Writer: st.Writer}
	for n := range rows {
		row := fmt.Sprintf(`{"key":"k%d","what":"row %d of %s","pad":%q}`, n, n, id, strings.Repeat("x", 900))
		if _, err := s.Runs().Append(t.Context(), agent, id, []runs.Row{{JSON: []byte(row)}}, ""); err != nil {
			t.Fatal(err)
		}
		if n%20 == 2 {
			b := bytes.NewReader([]byte(fmt.Sprint(id, n)))
			if _, _, err := s.Runs().Put(t.Context(), agent, id, fmt.Sprint("p", n), runs.SourceNamed, "", b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Runs().Settle(t.Context(), agent, id, runs.SettleRequest{Status: runs.Success, Summary: "end of " + id}); err != nil {
		t.Fatal(err)
	}
	return id
}

// seen is what can be seen of a run.
type seen struct {
	damaged            bool
	log, payloads, rec string
}

func lookAt(t *testing.T, s *Store, ids []string) map[string]seen {
	t.Helper()
	all := map[string]seen{}
	for _, id := range ids {
		ref, ok := s.Runs().Lookup(id)
		if !ok { // its start is lost
			all[id] = seen{log: fmt.Sprint("unnamed: ", s.Runs().Damage().Unnamed)}
			continue
		}
		rec, err := s.Runs().Record(ref)
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.Runs().PayloadList(ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if !strings.HasPrefix(p.Name, ".") {
				if _, err := readPayload(s, ref, p.Name); err != nil {
					t.Fatalf("%s: %s: %v", id, p.Name, err)
				}
			}
		}
		info, _ := s.Runs().Info(ref)
		info.StartedAt, info.ChangedAt, info.Generation = info.StartedAt.UTC(), info.ChangedAt.UTC(), 0
		all[id] = seen{rec.Damaged, string(logOf(t, s, id)), fmt.Sprint(list), fmt.Sprintf("%+v %d %d %s", info, rec.Revision, rec.Epoch, rec.Phase)}
	}
	return all
}

// rotUnsealed flips a bit of a text in a segment without a footer.
func rotUnsealed(t *testing.T, dir, text string) {
	t.Helper()
	for _, name := range unsealed(t, dir) {
		file := filepath.Join(dir, walName, name)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(b, []byte(text)); at >= 0 {
			b[at+3] ^= 1
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s is in no segment that is not sealed", text)
}

// unsealed are the segments of a store that do not end with a footer.
func unsealed(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, walName, "0*.seg"))
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b[len(b)-4096:], []byte("durafs\n\r")) {
			names = append(names, filepath.Base(file))
		}
	}
	return names
}

func withoutFooters(t *testing.T, dir string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, walName, "0*.seg"))
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b[:len(b)-4096], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
