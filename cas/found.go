package cas

import (
	"path/filepath"
	"strings"

	"durafs/internal/vfs"
)

// Found lists the packs in a directory by what they say themselves, for a store
// whose ledger is lost.
func Found(fsys vfs.FS, dir string, storeID [16]byte) ([]Pack, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{fs: fsys, dir: dir}
	var packs []Pack
	for _, name := range names {
		path := filepath.Join(dir, name)
		h, ok := s.headerOf(path)
		if !ok || h.StoreID != storeID {
			continue
		}
		p := Pack{Seq: h.Seq, Nonce: h.Nonce}
		info, err := fsys.Stat(path)
		if id, idErr := ParseID(strings.TrimSuffix(name, ".pack")); err == nil && idErr == nil {
			p.Sealed, p.Bytes, p.B3 = true, info.Size, id
		}
		packs = append(packs, p)
	}
	return packs, nil
}
