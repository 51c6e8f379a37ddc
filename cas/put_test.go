package cas

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var sizes = []int{
	0, 1, 2, 1023, 1024, 1025, 16383, 16384, 16385, 65535, 65536, 65537, 131072, 131073, 200_000,
	1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20,
}

func TestPutAndReadBack(t *testing.T) {
	for name, make := range map[string]func(uint64, int) []byte{"noise": noise, "text": text} {
		t.Run(name, func(t *testing.T) {
			l := &fakeLedger{}
			s := open(t, options(t, l, memDir(t)))
			for i, n := range sizes {
				data := make(uint64(i), n)
				ref := mustPut(t, s, data)
				if ref.ID != Sum(data) || ref.Bytes != int64(n) {
					t.Fatalf("%d bytes: ref %v", n, ref)
				}
				if inline := n > 0 && n <= InlineBytesMax; inline != (ref.Inline != nil) || inline == (ref.Hint != (Hint{})) && n > 0 {
					t.Errorf("%d bytes: inline %d, hint %v", n, len(ref.Inline), ref.Hint)
				}
				wantBytes(t, s, ref, data)
				ref.Hint = Hint{}
				if n > InlineBytesMax {
					wantBytes(t, s, ref, data)
				}
			}
		})
	}
}

// A manifest of several levels, made of few bytes.
func TestDeepManifest(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.chunkBytes, o.nodeChildren = 1024, 4
	s := open(t, o)
	for _, chunks := range []int{17, 4 * 4, 4*4 + 1, 4 * 4 * 4, 4*4*4 + 1, 4 * 4 * 4 * 4} {
		for _, n := range []int{chunks*1024 - 1, chunks * 1024} {
			data := noise(uint64(n), n)
			ref := mustPut(t, s, data)
			wantBytes(t, s, ref, data)
		}
	}
	if _, err := s.Put(t.Context(), bytes.NewReader(noise(9, 4*4*4*4*1024+1))); err == nil {
		t.Error("a payload beyond the deepest manifest was taken")
	}
}

func TestMoreThanOneNode(t *testing.T) {
	l := &fakeLedger{}
	s := open(t, options(t, l, memDir(t)))
	data := bytes.Repeat(noise(7, 1<<20), 70)
	ref := mustPut(t, s, data)
	wantBytes(t, s, ref, data)
	if st := s.Stats(); st.RecordBytes > 2<<20 {
		t.Errorf("70 times the same MiB was stored as %d bytes", st.RecordBytes)
	}
}

// What is shown as a payload's id, and as a sealed pack's name, is what b3sum
// prints of the file.
func TestB3sum(t *testing.T) {
	if _, err := exec.LookPath("b3sum"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("b3sum is not installed (apt-get install b3sum)")
		}
		t.Skip("b3sum is not installed (apt-get install b3sum)")
	}
	l := &fakeLedger{}
	dir := memDir(t)
	s := open(t, options(t, l, dir))
	for i, n := range sizes {
		data := text(uint64(i), n)
		ref := mustPut(t, s, data)
		file := filepath.Join(t.TempDir(), fmt.Sprint(n))
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := b3sum(t, file); got != ref.ID.String() {
			t.Errorf("%d bytes: id %v, b3sum %v", n, ref.ID, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	packs, _ := filepath.Glob(filepath.Join(dir, "*.pack"))
	if len(packs) != 1 {
		t.Fatalf("packs: %v", packs)
	}
	if got := b3sum(t, packs[0]); got+".pack" != filepath.Base(packs[0]) || got != l.packs[0].B3.String() {
		t.Errorf("pack %s: b3sum %s, ledger %v", packs[0], got, l.packs[0].B3)
	}
}

func b3sum(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.Command("b3sum", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))[0]
}
