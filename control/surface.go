package control

import "sync"

// SurfaceOwner decides who may draw on a surface that shows a run: a terminal, a
// pane, a page. Whoever comes last owns it, and a drawing that was prepared for
// a former owner, and comes late, is left out:
//
//	first := owner.Claim()
//	…                              second := owner.Claim()
//	owner.Commit(first, draw)      // false: draw is not called
//
// It is of this process and says nothing about the run, which goes on whoever
// looks. The zero value is ready; its methods may be called concurrently.
type SurfaceOwner struct {
	mu    sync.Mutex
	owner uint64
}

// Claim takes the surface over and returns the token of its new owner; tokens
// rise.
func (o *SurfaceOwner) Claim() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owner++
	return o.owner
}

// Owns reports whether token is the owner's. It may change at once; what must not
// be drawn by another is drawn in Commit.
func (o *SurfaceOwner) Owns(token uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return token != 0 && token == o.owner
}

// Commit calls draw if token is the owner's, and reports whether it did. Nobody
// can claim the surface meanwhile, so draw is short, and claims nothing itself.
func (o *SurfaceOwner) Commit(token uint64, draw func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if token == 0 || token != o.owner {
		return false
	}
	draw()
	return true
}
