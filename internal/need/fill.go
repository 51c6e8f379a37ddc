package need

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// FillUp takes all space of a file system with a file of this name, to the last
// block.
func FillUp(t testing.TB, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 20; n >= 512; n /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
