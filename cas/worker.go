package cas

import (
	"runtime"
	"sync"
)

// workers run what can be done beside a caller: encoding a chunk, reading one
// ahead. There is one per processor.
type workers struct {
	todo chan func()
	done sync.WaitGroup
}

func startWorkers() *workers {
	w := &workers{todo: make(chan func(), runtime.GOMAXPROCS(0))}
	for range runtime.GOMAXPROCS(0) {
		w.done.Go(func() {
			for fn := range w.todo {
				fn()
			}
		})
	}
	return w
}

// try hands fn to a worker and reports whether one took it; who has to have it
// done does it himself otherwise.
func (w *workers) try(fn func()) bool {
	if w == nil { // Verify has none
		return false
	}
	select {
	case w.todo <- fn:
		return true
	default:
		return false
	}
}

// close ends the workers. try must not be called any more.
func (w *workers) close() {
	close(w.todo)
	w.done.Wait()
}
