package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"durafs/cas"
	"durafs/runs"
)

// TestVerifyNamesWhoSharesAPayload: of a payload that two runs have under
// different names, one chunk rots. Verify names the chunk and both runs, and not
// the third; who reads it is told which payload of which run it is; and a put of
// the same bytes, by the third, heals it.
func TestVerifyNamesWhoSharesAPayload(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	shared, own := randomBytes(7, 300<<10), randomBytes(8, 300<<10)
	writers := map[string]string{}
	for id, b := range map[string][]byte{"exec_a": shared, "exec_b": shared, "exec_c": own} {
		st, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: id, Task: "t"})
		if err != nil {
			t.Fatal(err)
		}
		writers[id] = st.Writer
		_, _, err = s.Runs().Put(t.Context(), runs.Caller{Writer: st.Writer}, id, "of-"+id, runs.SourceNamed, "", bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"a chunk", "its header", "the manifest"} {
		image := filepath.Join(t.TempDir(), "s")
		copyTree(t, dir, image)
		flipIn(t, placesOf(t, image, what, shared))
		found := verify(t, image)
		for id, want := range map[string]bool{"exec_a": true, "exec_b": true, "exec_c": false} {
			named := slices.ContainsFunc(found, func(f Finding) bool {
				return f.Run == id && strings.HasPrefix(f.File, "wal/") && strings.Contains(f.Reason, "of-"+id) && f.LSNFrom > 0
			})
			if named != want {
				t.Errorf("%s rots: %s is named: %v; found %v", what, id, named, found)
			}
		}
		checkSharedRot(t, what, image, shared, writers)
	}
}

func checkSharedRot(t *testing.T, what, dir string, shared []byte, writers map[string]string) {
	s := openFor(t, nil, dir)
	defer s.Close(t.Context())
	ref, _ := s.Runs().Lookup("exec_b")
	_, err := readPayload(s, ref, "of-exec_b")
	if e, ok := errors.AsType[*runs.PayloadError](err); !ok || e.Run != "exec_b" || e.Name != "of-exec_b" {
		t.Fatalf("%s rots: a read of it is answered %v", what, err)
	}
	if d := s.Status().Damage; d.Runs != 0 || !slices.Equal(d.Payloads, []string{"exec_b/of-exec_b"}) {
		t.Errorf("%s rots: the status tells %+v", what, d)
	}
	agent := runs.Caller{Writer: writers["exec_c"]}
	if _, err := s.Runs().Attach(t.Context(), agent, "exec_c", runs.AttachRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Runs().Put(t.Context(), agent, "exec_c", "again", runs.SourceNamed, "", bytes.NewReader(shared)); err != nil {
		t.Fatal(err)
	}
	if got, err := readPayload(s, ref, "of-exec_b"); err != nil || !bytes.Equal(got, shared) {
		t.Errorf("%s rots: after a put of the same bytes a read of it is answered %v", what, err)
	}
	for _, f := range verify(t, dir) {
		if f.Run != "" {
			t.Errorf("%s rots: it was healed, and verify finds %v", what, f)
		}
	}
}

// packPlace is a byte of a pack.
type packPlace struct {
	file string
	off  int
}

// placesOf finds in the packs a byte of the second chunk of b, of that record's
// header, or of each manifest of b: every put wrote one.
func placesOf(t *testing.T, dir, what string, b []byte) (places []packPlace) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, casName, "*.pack"))
	if err != nil || len(files) == 0 {
		t.Fatalf("packs: %v, %v", files, err)
	}
	part, after := b[64<<10:][:100], 1000
	switch id := cas.Sum(b); what {
	case "its header":
		after = -50
	case "the manifest":
		part, after = id[:], 80
	}
	for _, file := range files {
		pack, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; ; at++ {
			next := bytes.Index(pack[at:], part)
			if next < 0 {
				break
			}
			at += next
			if what == "the manifest" && string(pack[at-16:at-12]) != "PKR1" {
				continue // the footer lists it too
			}
			places = append(places, packPlace{file, at + after})
		}
	}
	if len(places) == 0 {
		t.Fatalf("no pack has %s", what)
	}
	return places
}

func flipIn(t *testing.T, places []packPlace) {
	t.Helper()
	for _, at := range places {
		b, err := os.ReadFile(at.file)
		if err == nil {
			b[at.off] ^= 1
			err = os.WriteFile(at.file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
