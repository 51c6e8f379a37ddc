package simdisk_test

import (
	"testing"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
	"durafs/internal/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	vfstest.TestFS(t, func(t *testing.T) (vfs.FS, string) {
		d := simdisk.New(simdisk.Options{})
		if err := d.Mkdir("/dir"); err != nil {
			t.Fatal(err)
		}
		return d, "/dir"
	})
}
