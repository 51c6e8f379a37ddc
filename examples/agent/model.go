package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ask is what a model wants: a tool to run, or, at the end, its answer.
type ask struct {
	name   string
	args   json.RawMessage
	answer string
}

// next is the model. A real one is asked over the network; this one is a script.
// Either sees the conversation so far and nothing else, so that after a resume
// it goes on where it was.
func next(turns []turn) (ask, error) {
	if len(turns) == 0 {
		return want("list", nil), nil
	}
	var names []string
	if err := value(turns[0], &names); err != nil {
		return ask{}, err
	}
	// For each file: read it, note its words. Then the chart, then the report.
	n := len(turns) - 1
	if n < 2*len(names) {
		name := names[n/2]
		if n%2 == 0 {
			return want("read", map[string]any{"name": name}), nil
		}
		return want("note", map[string]any{"text": fmt.Sprintf("%s: %d words", name, words(turns[len(turns)-1]))}), nil
	}
	counts := map[string]int{}
	for i, name := range names {
		counts[name] = words(turns[1+2*i])
	}
	switch n - 2*len(names) {
	case 0:
		return want("chart", map[string]any{"counts": counts}), nil
	case 1:
		return want("write", map[string]any{"name": "report.md", "text": report(names, counts, turns[len(turns)-1])}), nil
	}
	return ask{answer: report(names, counts, turns[len(turns)-2])}, nil
}

func want(name string, args map[string]any) ask {
	b, err := json.Marshal(args)
	if err != nil { // strings and numbers
		panic(err)
	}
	return ask{name: name, args: b}
}

// projection is what of a result the script looks at.
type projection struct {
	Status string
	Parts  []struct {
		Kind  string
		Text  string
		Value json.RawMessage
		Ref   struct{ B3 string }
	}
}

func seen(t turn) (p projection, err error) {
	err = json.Unmarshal(t.Result, &p)
	if err == nil && (p.Status != "ok" || len(p.Parts) == 0) {
		err = fmt.Errorf("the script has no answer to what became of %s: %s", t.Name, t.Result)
	}
	return p, err
}

// value is the JSON that a result shows.
func value(t turn, v any) error {
	p, err := seen(t)
	if err != nil {
		return err
	}
	return json.Unmarshal(p.Parts[0].Value, v)
}

// words counts the words of the text that a result shows.
func words(t turn) int {
	p, err := seen(t)
	if err != nil {
		return 0
	}
	return len(strings.Fields(p.Parts[0].Text))
}

func report(names []string, counts map[string]int, chart turn) string {
	var b strings.Builder
	b.WriteString("# Words\n\n")
	for _, name := range names {
		fmt.Fprintf(&b, "- %s: %d\n", name, counts[name])
	}
	if p, err := seen(chart); err == nil {
		fmt.Fprintf(&b, "\nChart: BLAKE3 %s\n", p.Parts[0].Ref.B3)
	}
	return b.String()
}
