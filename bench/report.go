package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Report is what was measured on one machine, with when and of what.
type Report struct {
	Machine
	Groups []Measured `json:"groups"`
	Rows   []Row      `json:"rows"`
}

// Machine is what figures are compared on.
type Machine struct {
	CPU        string `json:"cpu"`
	CPUs       int    `json:"cpus"`
	MemoryGiB  int    `json:"memory_gib"`
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"`
	Go         string `json:"go"`
}

// Measured is when a group of rows was measured, and of what.
type Measured struct {
	Group  string    `json:"group"`
	Commit string    `json:"commit"` // with "+" where the tree was not clean
	Date   time.Time `json:"date"`
}

// NewReport describes this machine and the file system of dir.
func NewReport(dir, commit string, modified bool, at time.Time, rows []Row) Report {
	r := Report{
		Machine: Machine{
			CPU: cpuName(), CPUs: runtime.NumCPU(), MemoryGiB: memoryGiB(), Kernel: kernel(),
			Filesystem: filesystemOf(dir), Go: runtime.Version(),
		},
		Rows: rows,
	}
	if commit == "" {
		commit = "unknown"
	} else if commit = commit[:min(12, len(commit))]; modified {
		commit += "+"
	}
	for _, row := range rows {
		if _, ok := r.measured(row.Group); !ok {
			r.Groups = append(r.Groups, Measured{row.Group, commit, at.UTC().Truncate(time.Second)})
		}
	}
	return r
}

func (r Report) measured(group string) (Measured, bool) {
	for _, m := range r.Groups {
		if m.Group == group {
			return m, true
		}
	}
	return Measured{}, false
}

// with is r and those groups of an older report that r does not have, if they
// were measured on the same machine; in the order of the groups.
func (r Report) with(old Report) Report {
	if old.Machine != r.Machine {
		return r
	}
	all := Report{Machine: r.Machine}
	for _, g := range groups {
		from := r
		m, ok := r.measured(g.name)
		if !ok {
			from = old
			if m, ok = old.measured(g.name); !ok {
				continue
			}
		}
		all.Groups = append(all.Groups, m)
		for _, row := range from.Rows {
			if row.Group == g.name {
				all.Rows = append(all.Rows, row)
			}
		}
	}
	return all
}

// WriteReport writes r as a page for people to name, and as JSON to the same
// name with the ending .json. Groups that r does not have stay as they were
// measured on the same machine before: one at a time is what a machine can be
// left alone for.
func WriteReport(name string, r Report) error {
	base := strings.TrimSuffix(name, filepath.Ext(name))
	if text, err := os.ReadFile(base + ".json"); err == nil {
		var old Report
		if json.Unmarshal(text, &old) == nil {
			r = r.with(old)
		}
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".json", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(name, r.markdown(), 0o644)
}

const reportHead = `# Benchmarks

Written by ` + "`make bench`" + `; not to be edited.

Every figure is a ratio of two things that were measured in turn, A B A B …, in one run: what durafs does, and what the hardware needs for the same at the least (the floor). The ratio is the median of the rounds, the spread their smallest and largest. A goal that was not reached stands here as missed.

`

// markdown is the page.
func (r Report) markdown() []byte {
	var b bytes.Buffer
	b.WriteString(reportHead)
	fmt.Fprintf(&b, "| | |\n|---|---|\n| machine | %d × %s, %d GiB |\n| kernel | %s |\n| file system | %s |\n| Go | %s |\n",
		r.CPUs, r.CPU, r.MemoryGiB, r.Kernel, r.Filesystem, r.Go)
	met, goals, group := 0, 0, ""
	for _, row := range r.Rows {
		if row.Group != group {
			group = row.Group
			m, _ := r.measured(group)
			fmt.Fprintf(&b, "\n## %s\n\nCommit %s, %s.\n\n", group, m.Commit, m.Date.Format(time.RFC3339))
			fmt.Fprintf(&b, "| what | value | floor | ratio | spread | rounds | goal | |\n|---|---|---|---|---|---|---|---|\n")
		}
		c := row.cells()
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d | %s | %s |\n",
			row.Name, c.value, c.floor, c.ratio, c.spread, row.Rounds, c.goal, strings.ReplaceAll(c.verdict, "|", "/"))
		if row.Goal > 0 {
			goals++
			if row.Met {
				met++
			}
		}
	}
	fmt.Fprintf(&b, "\n%d of %d goals are met. A row without a goal is there to be compared with the others.\n", met, goals)
	return b.Bytes()
}

func cpuName() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	return field(string(b), "model name")
}

func memoryGiB() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int((info.Totalram*uint64(info.Unit) + 1<<29) >> 30)
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// filesystemOf is the type and the options of the mount that dir is on.
func filesystemOf(dir string) string {
	var st unix.Stat_t
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || unix.Stat(dir, &st) != nil {
		return "unknown"
	}
	return mountOn(string(b), fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
}

// mountOn finds a device's mount in the text of mountinfo.
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func mountOn(mountinfo, device string) string {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		for i, f := range fields {
			if f == "-" && i+3 < len(fields) && fields[2] == device {
				return fields[i+1] + " (" + fields[i+3] + ")"
			}
		}
	}
	return "unknown"
}

// field is the value of the first "name : value" line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
