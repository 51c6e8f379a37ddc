package runs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated from the tables into docs")

// lifecycleDoc is where the generated part stands, between the two marks.
const (
	lifecycleDoc  = "../docs/lifecycle.md"
	generatedFrom = "<!-- generated from runs/transitions.go: go test ./runs -run TestDiagram -update -->\n"
	generatedTo   = "<!-- end of what is generated -->\n"
)

// TestDiagram holds the manual's diagram and table against the table of
// transitions.
func TestDiagram(t *testing.T) {
	text, err := os.ReadFile(lifecycleDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), generatedFrom)
	have, after, ok2 := strings.Cut(rest, generatedTo)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for what is generated", lifecycleDoc)
	}
	want := diagram() + "\n" + verdictTable()
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not what runs/transitions.go says; go test ./runs -run TestDiagram -update", lifecycleDoc)
	}
	if err := os.WriteFile(lifecycleDoc, []byte(before+generatedFrom+want+generatedTo+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// diagram draws every change of phase that the table allows.
func diagram() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> running: start\n")
	for p := Running; int(p) < phaseCount; p++ {
		for _, to := range phases() {
			var events []string
			for e := range eventCount {
				for _, x := range transitions[p][e].to {
					if x == to {
						events = append(events, e.String())
					}
				}
			}
			if len(events) > 0 {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", p, node(to), strings.Join(events, ", "))
			}
		}
		if p.sealed() {
			fmt.Fprintf(&b, "    %s --> [*]\n", p)
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// phases are all that a run can come to, none (it is gone) included.
func phases() (all []Phase) {
	for p := PhaseNone; int(p) < phaseCount; p++ {
		all = append(all, p)
	}
	return all
}

func node(p Phase) string {
	if p == PhaseNone {
		return "[*]"
	}
	return p.String()
}

// verdictTable says what each phase makes of each event.
func verdictTable() string {
	var b strings.Builder
	b.WriteString("| phase |")
	for e := range eventCount {
		fmt.Fprintf(&b, " %s |", e)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", int(eventCount)) + "\n")
	for p := Running; int(p) < phaseCount; p++ {
		fmt.Fprintf(&b, "| %s |", p)
		for e := range eventCount {
			r := transitions[p][e]
			text := map[verdict]string{taken: "taken", adopted: "same: answered, other: `" + string(r.code) + "`", late: "late, `" + string(r.code) + "`", refused: "`" + string(r.code) + "`"}[r.verdict]
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	return b.String()
}
