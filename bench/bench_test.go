package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"durafs/internal/daemon"
	"durafs/internal/need"
)

// serveEnv makes this test program the daemon that a test asked for: its value
// is the store and the mount.
const serveEnv = "DURAFS_BENCH_TEST_SERVE"

func TestMain(m *testing.M) {
	if arg, ok := os.LookupEnv(serveEnv); ok {
		os.Exit(serveForTest(arg))
	}
	os.Exit(m.Run())
}

func serveForTest(arg string) int {
	dir, mount, _ := strings.Cut(arg, "\n")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	d, err := daemon.Open(ctx, daemon.Config{Store: dir, Mount: mount})
	if err == nil {
		err = d.Serve(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serveSelf is Options.Serve with this test program.
func serveSelf(dir, mount string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+dir+"\n"+mount)
	return cmd
}

func TestRow(t *testing.T) {
	pairs := []pair{{2, 1}, {10, 10}, {3, 1}}
	r := row("x", "/s", 1.5, false, pairs)
	if r.Ratio != 2 || r.Low != 1 || r.High != 3 || !r.Met {
		t.Errorf("%+v", r)
	}
	if r := row("x", "/s", 1.5, true, pairs); r.Met {
		t.Errorf("2 is not at most 1.5: %+v", r)
	}
	if r := row("x", "/s", 0, true, pairs); !r.Met {
		t.Errorf("no goal was missed: %+v", r)
	}
}

func TestWriteTextSaysWhatWasMissed(t *testing.T) {
	var b bytes.Buffer
	err := WriteText(&b, []Row{
		row("fast", "/s", 0.5, false, []pair{{1, 1}}),
		row("slow", "/s", 0.5, false, []pair{{1, 4}}),
		{Name: "none", Goal: 1, Note: "no mount here"},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{"what", "met", "MISSED", "not measured: no mount here"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q in it", i, lines[i], want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var d []time.Duration
	for i := range 200 {
		d = append(d, time.Duration(200-i)*time.Microsecond)
	}
	for q, want := range map[float64]float64{0.5: 100, 0.99: 198, 1: 200, 0: 1} {
		if got := quantile(d, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := p50(d[:1]); got != 200 {
		t.Errorf("p50 of one is %v", got)
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{1 << 30: "1 GiB", 256 << 20: "256 MiB", 3 << 10: "3 KiB", 1000: "1000 B"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// toy is a little of everything.
var toy = sizes{
	roundTime:    5 * time.Millisecond,
	payloadBytes: 2 << 20, outBytes: 1 << 20, streamBytes: 1 << 20,
	latencyBytes: 4 << 20, written: 1 << 20, tailBytes: 2 << 20, crashBytes: 1 << 20,
	listedFew: 200, listedMany: 250,
	spaceRuns: 20, runs: 300, rowsPerRun: 1,
}

// TestRun runs every group, with little of everything: each row has a finite
// figure of the right number of rounds, and nothing is left behind. What the
// figures are depends on the machine.
func TestRun(t *testing.T) {
	need.FUSE(t)
	dir := t.TempDir()
	var seen []string
	rows, err := run(t.Context(), Options{Dir: dir, Serve: serveSelf, OnRow: func(r Row) { seen = append(seen, r.Name) }}, toy)
	if err != nil {
		t.Fatal(err)
	}
	var names, measured []string
	for _, r := range rows {
		names = append(names, r.Name)
		measured = append(measured, r.Group)
		if r.Note != "" || r.Unit == "" || !(r.Ratio > 0) || math.IsInf(r.Ratio, 0) || !(r.Low <= r.Ratio && r.Ratio <= r.High) || r.Rounds < 1 {
			t.Errorf("%+v", r)
		}
	}
	if !slices.Equal(seen, names) {
		t.Errorf("told of %q, want %q", seen, names)
	}
	if got := slices.Compact(measured); !slices.Equal(got, Groups()) {
		t.Errorf("measured %q, want %q", got, Groups())
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(rows) {
		t.Errorf("names are not unique: %q", names)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOnlySelectsGroups(t *testing.T) {
	rows, err := run(t.Context(), Options{Dir: t.TempDir(), Only: regexp.MustCompile("^app")}, toy)
	if err != nil || len(rows) == 0 {
		t.Fatal(rows, err)
	}
	for _, r := range rows {
		if r.Group != "append" {
			t.Errorf("%+v", r)
		}
	}
}

// Without a way to serve a mount its rows say so, and the others are measured.
func TestNoMountIsSaid(t *testing.T) {
	for name, serve := range map[string]func(string, string) *exec.Cmd{
		"none":      nil,
		"not there": func(string, string) *exec.Cmd { return exec.Command("/nonexistent") },
		"ends":      func(string, string) *exec.Cmd { return exec.Command("sh", "-c", "echo no fuse; exit 1") },
	} {
		rows, err := run(t.Context(), Options{Dir: t.TempDir(), Only: regexp.MustCompile("payload-out"), Serve: serve}, toy)
		if err != nil || len(rows) != 2 {
			t.Fatalf("%s: %v, %v", name, rows, err)
		}
		for _, r := range rows {
			if r.Met || r.Note == "" || name == "ends" && !strings.Contains(r.Note, "no fuse") {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

func TestReport(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	rows := []Row{
		row("fast", "/s", 0.5, false, []pair{{1, 1}}), row("slow", "/s", 0.5, false, []pair{{1, 4}}),
		row("free", "ms", 0, true, []pair{{3, 1}}),
		{Name: "none", Goal: 1, Note: "no mount here"},
	}
	rows[0].Group, rows[1].Group, rows[2].Group, rows[3].Group = "append", "append", "replay", "replay"
	r := NewReport(t.TempDir(), "0123456789abcdef", true, at, rows)
	if len(r.Groups) != 2 || r.Groups[1] != (Measured{"replay", "0123456789ab+", at.Truncate(time.Second)}) || r.CPU == "" || r.MemoryGiB == 0 || !strings.HasPrefix(r.Kernel, "Linux ") || r.Filesystem == "unknown" {
		t.Errorf("%+v", r)
	}
	name := filepath.Join(t.TempDir(), "benchmarks.md")
	if err := WriteReport(name, r); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## append\n\nCommit 0123456789ab+, 2026-01-02T03:04:05Z.\n", "## replay\n\nCommit 0123456789ab+, 2026-01-02T03:04:05Z.\n",
		"| fast | 1 /s | 1 /s | 1.00 | 1.00–1.00 | 1 | ≥ 0.50 | met |\n", "| 0.25 | 0.25–0.25 | 1 | ≥ 0.50 | MISSED |\n",
		"| free | 3 ms | 1 ms | 3.00 | 3.00–3.00 | 1 | - |  |\n", "not measured: no mount here", "1 of 3 goals are met.",
	} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("%q is not in:\n%s", want, page)
		}
	}
	b, err := os.ReadFile(strings.TrimSuffix(name, ".md") + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || len(back.Rows) != 4 || back.Rows[0].Name != "fast" || !back.Rows[0].Met {
		t.Errorf("%v, %+v", err, back)
	}
}

// A report takes the place of its own groups and leaves the others, if they are
// of the same machine.
func TestReportKeepsOtherGroups(t *testing.T) {
	name := filepath.Join(t.TempDir(), "benchmarks.md")
	report := func(commit string, groups ...string) Report {
		var rows []Row
		for _, g := range groups {
			r := row(g+" of "+commit, "/s", 0, false, []pair{{1, 1}})
			r.Group = g
			rows = append(rows, r)
		}
		return NewReport(filepath.Dir(name), commit, false, time.Unix(1e9, 0), rows)
	}
	elsewhere := report("c3", "space")
	elsewhere.Kernel = "another"
	for _, c := range []struct {
		report Report
		want   string
	}{
		{report("c1", "replay", "open"), "[replay of c1 open of c1]"},
		{report("c2", "append", "open"), "[append of c2 replay of c1 open of c2]"},
		{elsewhere, "[space of c3]"},
	} {
		if err := WriteReport(name, c.report); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(strings.TrimSuffix(name, ".md") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var back Report
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range back.Rows {
			m, ok := back.measured(r.Group)
			if !ok || !strings.HasSuffix(r.Name, m.Commit) {
				t.Errorf("%q is said to be of %q", r.Name, m.Commit)
			}
			names = append(names, r.Name)
		}
		if got := fmt.Sprint(names); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestMountOn(t *testing.T) {
	const text = "22 1 0:21 / /proc rw - proc proc rw\n36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
	if got := mountOn(text, "98:0"); got != "ext3 (rw,errors=continue)" {
		t.Error(got)
	}
	if got := mountOn(text, "98:1"); got != "unknown" {
		t.Error(got)
	}
}
