package wal

import (
	"context"
	"path/filepath"

	"durafs/internal/vfs"
	"durafs/segment"
)

// FooterCheck is asked about each sealed segment that has a footer, in the order
// of their ids; first is true for the segment that the log begins with. Where a
// footer cannot be read, sections and batches are nil. It returns what is wrong
// with the footer, "" if nothing.
type FooterCheck func(seg uint32, first bool, sections Sections, batches Batches) (wrong string, err error)

// VerifyFooters has the sections of all footers checked by their owner, who can
// work them out again, and reports what is wrong with them. It writes nothing,
// and may run beside an open log. What Verify finds it does not report again,
// and where a footer or the manifest cannot be read it says nothing. began is
// the LSN that the log began behind: Options.Begin.
func VerifyFooters(ctx context.Context, fsys vfs.FS, dir string, began uint64, check FooterCheck, report func(Finding)) error {
	storeID, err := storeIDOf(fsys, dir)
	if err != nil {
		return nil
	}
	m, err := loadManifest(fsys, dir, storeID, false)
	if err != nil {
		return nil
	}
	table := newFiles(fsys, func(name string) string { return filepath.Join(dir, name) })
	defer table.close()
	begins := m.state.high.Dropped == began
	for _, e := range m.state.sortedSegments() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.State != segSealed {
			break
		}
		s := newSegFile(e)
		table.add(s)
		wrong, err := checkFooter(table, s, e, storeID, begins, check)
		if err != nil {
			return err
		}
		begins = false
		if wrong != "" {
			report(Finding{File: s.name, Offset: e.End, Reason: wrong})
		}
	}
	return nil
}

// checkFooter asks about one footer.
func checkFooter(table *files, s *segFile, e segEntry, storeID [16]byte, first bool, check FooterCheck) (wrong string, err error) {
	f, err := table.fs.Open(table.path(s.name))
	if err != nil {
		return check(e.ID, first, nil, nil)
	}
	defer f.Close()
	foot, err := readFooter(f, e, storeID)
	if err != nil {
		return check(e.ID, first, nil, nil)
	}
	s.footer.Store(foot)
	return check(e.ID, first, footerReader{table, s, foot}, batchesOf(f, segment.NewKey(e.Salt), e))
}
