package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"durafs/runs"
	"durafs/segment"
)

// TestSealOverRottenTable: a page in the middle of a run table has rotted when
// the table of a later segment should take it over. That one stands for itself,
// and segments go on being sealed; all runs are there.
func TestSealOverRottenTable(t *testing.T) {
	dir := memoryDir(t)
	s := openSmall(t, dir)
	n := 0
	start := func() {
		t.Helper()
		n++
		if _, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: fmt.Sprint("exec_", n)}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, walName, "0000000001.seg")
	var table segment.Section
	for table.Bytes == 0 {
		start()
		table = firstSection(t, file)
	}
	if table.Bytes < 3*segment.PageBytes {
		t.Fatalf("the table has %d bytes: there is nothing in its middle", table.Bytes)
	}
	rot := func() error {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("rot"), table.Offset+segment.PageBytes+100)
		return errors.Join(err, f.Close())
	}
	if err := rot(); err != nil {
		t.Fatal(err)
	}
	for firstSection(t, filepath.Join(dir, walName, "0000000006.seg")).Bytes == 0 {
		start()
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if live := unsealed(t, dir); len(live) > 0 {
		t.Fatalf("not sealed: %v", live)
	}
	s = openSmall(t, dir)
	if got := int(s.Runs().Newest()); got != n {
		t.Errorf("%d runs are there, of %d", got, n)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func openSmall(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{SegmentBytesMax: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// firstSection is that of the footer of a segment; zero where it has none yet.
func firstSection(t *testing.T, file string) segment.Section {
	t.Helper()
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return segment.Section{}
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < segment.FooterBytes {
		return segment.Section{}
	}
	foot, err := segment.ParseFooter(b[len(b)-segment.FooterBytes:])
	if err != nil || len(foot.Sections) == 0 {
		return segment.Section{}
	}
	return foot.Sections[0]
}
