package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"durafs/control"
)

// tool is something that the model can ask for. run returns what is recorded,
// and what the model is shown of it. Its safety says what may be done about a
// call of which nobody knows whether it has happened.
type tool struct {
	safety string
	run    func(dir string, args json.RawMessage, key string) (any, []control.Part, error)
}

var tools = map[string]tool{
	"list":  {control.ReadOnly, list},
	"read":  {control.ReadOnly, read},
	"chart": {control.ReadOnly, chart},
	"write": {control.Idempotent, write}, // the same file whenever it runs
	"note":  {control.Idempotent, note},  // it knows by the key what it has noted
}

// list lists the text files.
func list(dir string, _ json.RawMessage, _ string) (any, []control.Part, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, nil, err
	}
	names := []string{}
	for _, p := range paths {
		if name := filepath.Base(p); name != notesName {
			names = append(names, name)
		}
	}
	return names, []control.Part{control.JSON(names)}, nil
}

type fileArgs struct{ Name, Text string }

// path is a file of the directory, and of no other.
func (a *fileArgs) path(dir string) (string, error) {
	if !filepath.IsLocal(a.Name) {
		return "", errors.New("no file of this directory: " + a.Name)
	}
	return filepath.Join(dir, a.Name), nil
}

func read(dir string, args json.RawMessage, _ string) (any, []control.Part, error) {
	var a fileArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, nil, err
	}
	path, err := a.path(dir)
	if err != nil {
		return nil, nil, err
	}
	b, err := os.ReadFile(path)
	return string(b), []control.Part{control.Text(string(b))}, err
}

// write writes a file as a whole: whoever reads it finds the old one or the new
// one, also when we die in between.
func write(dir string, args json.RawMessage, _ string) (any, []control.Part, error) {
	var a fileArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, nil, err
	}
	path, err := a.path(dir)
	if err != nil {
		return nil, nil, err
	}
	err = os.WriteFile(path+".new", []byte(a.Text), 0o666)
	step()
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return len(a.Text), []control.Part{control.Text("written")}, err
}

const notesName = "notes.txt"

// note appends a line. Appending is not idempotent by nature; the key makes it
// so: a line that has it was written by this very call.
func note(dir string, args json.RawMessage, key string) (any, []control.Part, error) {
	var a fileArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, nil, err
	}
	shown := []control.Part{control.Text("noted")}
	path := filepath.Join(dir, notesName)
	have, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	line := a.Text + " # " + key
	if slices.Contains(strings.Split(string(have), "\n"), line) {
		return "was noted before", shown, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, nil, err
	}
	_, err = f.WriteString(line + "\n")
	step()
	return "noted", shown, errors.Join(err, f.Close())
}

const (
	barWidth    = 16
	chartHeight = 64
)

// chart draws bars. The image is shown to the model; the store keeps it as an
// artifact of the run.
func chart(_ string, args json.RawMessage, _ string) (any, []control.Part, error) {
	var a struct{ Counts map[string]int }
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, nil, err
	}
	m := image.NewGray(image.Rect(0, 0, barWidth*max(1, len(a.Counts)), chartHeight))
	for i, name := range slices.Sorted(maps.Keys(a.Counts)) {
		for y := range min(a.Counts[name], chartHeight) {
			for x := range barWidth - 2 {
				m.SetGray(i*barWidth+x, chartHeight-1-y, color.Gray{Y: 0xff})
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		return nil, nil, err
	}
	return b.Len(), []control.Part{control.Image("image/png", b.Bytes())}, nil
}
