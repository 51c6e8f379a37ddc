package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "durafs"

// source is one parsed Go file of the module.
type source struct {
	path string // relative to the root of the module
	pkg  string // the directory, relative
	test bool
	fset *token.FileSet
	ast  *ast.File
	text string
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// skipDirs are not of this module, or hold no code of it.
var skipDirs = []string{".git", "bin", "testdata", "tools", "node_modules", "clients", "peers"}

// walk calls fn for each file of the repository with this suffix.
func walk(t *testing.T, suffix string, fn func(rel string, text []byte)) {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(skipDirs, d.Name()) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, suffix) {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		fn(filepath.ToSlash(rel), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// parsed is the whole module, once it was asked for.
var parsed []*source

// sources parses the whole module.
func sources(t *testing.T) []*source {
	t.Helper()
	if parsed != nil {
		return parsed
	}
	var all []*source
	walk(t, ".go", func(rel string, text []byte) { all = append(all, parse(t, rel, string(text))) })
	if len(all) < 20 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(all))
	}
	parsed = all
	return all
}

func parse(t *testing.T, rel, text string) *source {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return &source{
		path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"),
		fset: fset, ast: f, text: text,
	}
}

// imports maps the local name of each import to its path.
func (s *source) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range s.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

// within reports whether p is pattern, or below it where pattern ends in /...
func within(p, pattern string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == above || strings.HasPrefix(p, above+"/")
	}
	return p == pattern
}

func withinAny(p string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return within(p, pattern) })
}
