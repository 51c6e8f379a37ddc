package store

import (
	"durafs/cas"
	"durafs/wal"
)

// ledger keeps the chunk store's list of packs in the log's MANIFEST: neither
// package knows the other.
type ledger struct{ log *wal.Log }

func (l ledger) Packs() []cas.Pack { return casPacks(l.log.Packs()) }

func (l ledger) AddPack(p cas.Pack) error  { return l.log.AddPack(walPack(p)) }
func (l ledger) SealPack(p cas.Pack) error { return l.log.SealPack(walPack(p)) }

func walPack(p cas.Pack) wal.Pack {
	return wal.Pack{Seq: p.Seq, Nonce: p.Nonce, Sealed: p.Sealed, Bytes: p.Bytes, B3: p.B3}
}

func casPacks(packs []wal.Pack) []cas.Pack {
	list := make([]cas.Pack, len(packs))
	for i, p := range packs {
		list[i] = cas.Pack{Seq: p.Seq, Nonce: p.Nonce, Sealed: p.Sealed, Bytes: p.Bytes, B3: p.B3}
	}
	return list
}
