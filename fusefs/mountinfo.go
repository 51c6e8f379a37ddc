package fusefs

import (
	"os"
	"strconv"
	"strings"
)

// mountEntry is a line of /proc/self/mountinfo. Reading that asks no file
// system anything, so a dead one cannot answer wrongly or hang.
type mountEntry struct {
	dev    string // major:minor
	root   string // the directory of the file system that is mounted
	point  string // where
	fsType string
	source string
}

// findMount finds what is mounted on a resolved path: the uppermost of several.
func findMount(path string) (found mountEntry, ok bool) {
	for _, m := range mounts() {
		if m.point == path {
			found, ok = m, true
		}
	}
	return found, ok
}

func mounts() []mountEntry {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // no /proc: nothing is known, and mount(2) decides
	}
	return parseMounts(string(b))
}

func parseMounts(text string) []mountEntry {
	var all []mountEntry
	for line := range strings.Lines(text) {
		mount, super, ok := strings.Cut(line, " - ")
		m, s := strings.Fields(mount), strings.Fields(super)
		if !ok || len(m) < 6 || len(s) < 2 {
			continue
		}
		all = append(all, mountEntry{
			dev: m[2], root: unescape(m[3]), point: unescape(m[4]),
			fsType: unescape(s[0]), source: unescape(s[1]),
		})
	}
	return all
}

// unescape undoes what the kernel does to spaces, newlines and backslashes:
// \ and three octal digits.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// place is where a path really lies: on which device, under which name there.
// Two paths with the same place are the same directory, whatever is bound
// where.
func place(all []mountEntry, path string) (dev, inside string) {
	best := -1
	for i, m := range all {
		if isIn(path, m.point) && (best < 0 || len(m.point) >= len(all[best].point)) {
			best = i
		}
	}
	if best < 0 {
		return "", path
	}
	m := all[best]
	rest := strings.TrimPrefix(path[len(strings.TrimSuffix(m.point, "/")):], "/")
	return m.dev, strings.TrimSuffix(m.root, "/") + "/" + rest
}

// isIn tells whether path is dir or lies in it.
func isIn(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
