package cas

import (
	"testing"

	"durafs/internal/vfs"
)

// spokenLedger makes its calls visible among those of a recorder.
type spokenLedger struct {
	*fakeLedger
	fs vfs.FS
}

func (l spokenLedger) AddPack(p Pack) error {
	_, _ = l.fs.ReadDir("add")
	return l.fakeLedger.AddPack(p)
}

func (l spokenLedger) SealPack(p Pack) error {
	_, _ = l.fs.ReadDir("seal")
	return l.fakeLedger.SealPack(p)
}

// The order of calls that all promises rest on.
func TestOrderOfCalls(t *testing.T) {
	dir := memDir(t)
	// A ledger call fails as a ReadDir of nothing, which is what makes it
	// visible; so it is recorded through a file system that says it went well.
	saying := vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op == vfs.OpReadDir && (c.Name == "add" || c.Name == "seal") {
			return nil
		}
		return do(vfs.Whole)
	})
	rec := vfs.NewRecorder(saying, dir)
	l := &fakeLedger{}
	o := options(t, l, dir)
	o.FS, o.Ledger = rec, spokenLedger{l, rec}
	s := open(t, o)
	mustPut(t, s, noise(1, 100_000))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	const active, sealed = "active-0000000001.pack", "????????????????????????????????????????????????????????????????.pack"
	if err := rec.InOrder(
		vfs.Pattern{Ops: vfs.OpOpenDir},
		vfs.Pattern{Ops: vfs.OpCreate, Name: active},
		vfs.Pattern{Ops: vfs.OpWrite, Name: active},
		vfs.Pattern{Ops: vfs.OpDatasync, Name: active},
		vfs.Pattern{Ops: vfs.OpDirSync},
		vfs.Pattern{Ops: vfs.OpReadDir, Name: "add"},
		vfs.Pattern{Ops: vfs.OpWrite, Name: active},
		vfs.Pattern{Ops: vfs.OpDatasync, Name: active},
		vfs.Pattern{Ops: vfs.OpWrite, Name: active},
		vfs.Pattern{Ops: vfs.OpDatasync, Name: active},
		vfs.Pattern{Ops: vfs.OpRename, Name: sealed},
		vfs.Pattern{Ops: vfs.OpDirSync},
		vfs.Pattern{Ops: vfs.OpReadDir, Name: "seal"},
	); err != nil {
		t.Error(err)
	}
}
