package fusefs

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestHelper(t *testing.T) {
	none := func(string) (string, error) { return "", errors.New("none") }
	if helper, err := findHelper(0, none); helper != "" || err != nil {
		t.Errorf("root needs %q, %v", helper, err)
	}
	if helper, err := findHelper(1000, func(n string) (string, error) { return "/usr/bin/" + n, nil }); helper != "/usr/bin/fusermount3" || err != nil {
		t.Errorf("a user needs %q, %v", helper, err)
	}
	_, err := findHelper(1000, none)
	if err == nil || !strings.Contains(err.Error(), "package fuse3") || !strings.Contains(err.Error(), "fusermount3") {
		t.Errorf("without the helper: %v", err)
	}
}

func TestSourceHasNoComma(t *testing.T) {
	if got := source(`/a,b\c`); got != "durafs:/a_b_c" {
		t.Error(got)
	}
}

func TestParseMounts(t *testing.T) {
	const text = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:28 / /mnt/with\040space rw - tmpfs tmp\134fs rw
31 22 0:53 / /mnt ro,nosuid - fuse.durafs durafs:/store ro,user_id=0
32 22 254:0 /srv/store /bound rw shared:1 master:2 - ext4 /dev/vda rw
a line that is cut off
33 22 0:54 / /x
`
	all := parseMounts(text)
	want := []mountEntry{
		{"254:0", "/", "/", "ext4", "/dev/vda"},
		{"0:28", "/", "/mnt/with space", "tmpfs", `tmp\fs`},
		{"0:53", "/", "/mnt", "fuse.durafs", "durafs:/store"},
		{"254:0", "/srv/store", "/bound", "ext4", "/dev/vda"},
	}
	if !slices.Equal(all, want) {
		t.Errorf("parsed %+v", all)
	}
	for path, want := range map[string][2]string{
		"/home":             {"254:0", "/home"},
		"/":                 {"254:0", "/"},
		"/bound":            {"254:0", "/srv/store/"},
		"/bound/x":          {"254:0", "/srv/store/x"},
		"/boundary":         {"254:0", "/boundary"},
		"/mnt/file":         {"0:53", "/file"},
		"/mnt/with space/f": {"0:28", "/f"},
	} {
		if dev, in := place(all, path); dev != want[0] || in != want[1] {
			t.Errorf("%s lies at %s %s, want %v", path, dev, in, want)
		}
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add(`22 1 254:0 / / rw - ext4 /dev/vda rw`)
	f.Add(`30 22 0:28 / /mnt/a\040b rw - t\13 \777 rw`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range parseMounts(text) {
			place([]mountEntry{m}, m.point+"/x")
		}
	})
}

func TestOwnerNeverWrites(t *testing.T) {
	for mode, want := range map[os.FileMode][2]uint32{0: {0o500, 0o400}, 0o777: {0o555, 0o444}, 0o750: {0o550, 0o440}, 0o222: {0o500, 0o400}} {
		w := newOwner(Options{Mode: mode})
		if w.dirPerm != want[0] || w.filePerm != want[1] {
			t.Errorf("mode %o: %o and %o", mode, w.dirPerm, w.filePerm)
		}
	}
}
