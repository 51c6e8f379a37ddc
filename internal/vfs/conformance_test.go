package vfs_test

import (
	"testing"

	"durafs/internal/vfs"
	"durafs/internal/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{
		"OS":       vfs.OS,
		"Recorder": vfs.NewRecorder(vfs.OS, "/"),
		"Faulty":   vfs.NewFaulty(vfs.OS),
		"Both":     vfs.NewRecorder(vfs.NewFaulty(vfs.OS), ""),
	} {
		t.Run(name, func(t *testing.T) {
			vfstest.TestFS(t, func(t *testing.T) (vfs.FS, string) { return fsys, t.TempDir() })
		})
	}
}
