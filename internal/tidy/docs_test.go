package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every package has one comment that says what it is, attached to its package
// clause: one blank line between, and godoc shows nothing.
func TestPackageDocs(t *testing.T) {
	docs := map[string]int{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		docs[s.pkg] += 0
		if s.ast.Doc != nil {
			docs[s.pkg]++
		}
		for _, finding := range detachedDoc(s) {
			t.Error(finding)
		}
	}
	for pkg, n := range docs {
		if n != 1 {
			t.Errorf("%s: %d files have a package comment, want one", pkg, n)
		}
	}
	for _, bad := range []string{
		"// Package wal is a log.\n\npackage wal\n",
		"// This is a log.\npackage wal\n",
	} {
		if len(detachedDoc(parse(t, "wal/x.go", bad))) == 0 {
			t.Errorf("the check finds nothing in:\n%s", bad)
		}
	}
}

func detachedDoc(s *source) (findings []string) {
	begins := "Package " + s.ast.Name.Name
	if s.ast.Name.Name == "main" {
		begins = "Command " + path.Base(s.pkg)
	}
	for _, c := range s.ast.Comments {
		if c.Pos() < s.ast.Package && c != s.ast.Doc && strings.HasPrefix(c.Text(), begins) {
			findings = append(findings, fmt.Sprintf("%s: a blank line keeps the package comment from its package", s.path))
		}
	}
	if doc := s.ast.Doc.Text(); doc != "" && !strings.HasPrefix(doc, begins) && s.ast.Name.Name != "main" {
		findings = append(findings, fmt.Sprintf("%s: the package comment does not begin with %q", s.path, begins))
	}
	return findings
}

// What is exported has a comment: its contract.
func TestExportedHaveDocs(t *testing.T) {
	report(t, undocumentedNames,
		parse(t, "wal/x.go", `package wal; func Open() {}`),
		parse(t, "wal/x.go", `package wal; type Log struct{}`),
		parse(t, "wal/x.go", "package wal\ntype (\n// Log is a log.\nLog struct{}\n)\nfunc (l *Log) Close() {}"))
}

func undocumentedNames(s *source) (findings []string) {
	if s.test || s.ast.Name.Name == "main" {
		return nil
	}
	miss := func(n ast.Node, name string) {
		findings = append(findings, fmt.Sprintf("%s:%d: %s has no comment; say what it promises", s.path, s.line(n.Pos()), name))
	}
	for _, d := range s.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && ofExported(d) && !slices.Contains(undocumented, d.Name.Name) {
				miss(d, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				t, ok := spec.(*ast.TypeSpec)
				if ok && t.Name.IsExported() && t.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
					miss(t, t.Name.Name)
				}
			}
		}
	}
	return findings
}

// ofExported reports whether d is no method, or one of an exported type.
func ofExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() {
			exported = true
		}
		return true
	})
	return exported
}

// Every fuzz target has seeds: files under testdata/fuzz, or what it adds.
func TestFuzzTargetsHaveSeeds(t *testing.T) {
	for _, s := range sources(t) {
		for _, finding := range seeds(s) {
			t.Error(finding)
		}
	}
	if len(seeds(parse(t, "wal/x_test.go", `package wal; func FuzzX(f *testing.F) { f.Fuzz(nil) }`))) == 0 {
		t.Error("the check does not find a target without seeds")
	}
}

func seeds(s *source) (findings []string) {
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !s.test || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		dir := path.Join(s.pkg, "testdata", "fuzz", f.Name.Name)
		entries, err := os.ReadDir(filepath.Join("..", "..", dir))
		if err == nil && len(entries) == 0 {
			findings = append(findings, dir+" is empty")
		}
		if len(entries) == 0 && !addsSeeds(f) {
			findings = append(findings, fmt.Sprintf("%s: %s has no seeds: f.Add some, or put files in %s", s.path, f.Name.Name, dir))
		}
	}
	return findings
}

// addsSeeds reports whether the target calls f.Add, or a helper with f.
func addsSeeds(fn *ast.FuncDecl) bool {
	found := false
	isF := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && id.Name == "f"
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Add" && isF(sel.X) {
			found = true
		}
		for _, arg := range call.Args {
			found = found || isF(arg)
		}
		return true
	})
	return found
}

var (
	linkPattern  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fencePattern = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	codePattern  = regexp.MustCompile("`[^`\n]*`")
	headPattern  = regexp.MustCompile(`(?m)^#+[ \t]+(.*?)[ \t]*$`)
)

// Relative links in Markdown files resolve, and so do their #fragments.
func TestLinks(t *testing.T) {
	files := 0
	walk(t, ".md", func(rel string, text []byte) {
		files++
		for _, finding := range brokenLinks(rel, string(text)) {
			t.Error(finding)
		}
	})
	if files == 0 {
		t.Error("no Markdown file found: the walk is wrong")
	}
	for _, bad := range []string{"[x](no-such-file.md)", "[x](#no-such-heading)", "# A\n[x](README.md#no-such)"} {
		if len(brokenLinks("README.md", bad)) == 0 {
			t.Errorf("the check finds nothing in %q", bad)
		}
	}
	if got := brokenLinks("README.md", "# A `b` c\n[x](#a-b-c) [y](https://example.org/a) `[z](nowhere)`\n"); got != nil {
		t.Errorf("the check finds %q where all is well", got)
	}
}

func brokenLinks(rel, text string) (findings []string) {
	prose := codePattern.ReplaceAllString(fencePattern.ReplaceAllString(text, ""), "")
	for _, m := range linkPattern.FindAllStringSubmatch(prose, -1) {
		if problem := checkLink(rel, text, m[1]); problem != "" {
			findings = append(findings, fmt.Sprintf("%s: the link to %s %s", rel, m[1], problem))
		}
	}
	return findings
}

// checkLink says what is wrong with a link in the file rel, whose text this is.
func checkLink(rel, text, link string) string {
	target, fragment, _ := strings.Cut(link, "#")
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	if path.IsAbs(target) {
		return "is not relative"
	}
	if target != "" {
		data, err := os.ReadFile(filepath.Join("..", "..", path.Dir(rel), target))
		if errors.Is(err, fs.ErrNotExist) {
			return "leads nowhere"
		}
		text = string(data) // a directory has none, and no headings
	}
	if fragment != "" && (target == "" || strings.HasSuffix(target, ".md")) && !hasHeading(text, fragment) {
		return "names no heading there"
	}
	return ""
}

func hasHeading(text, fragment string) bool {
	for _, m := range headPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(text, ""), -1) {
		if slug(m[1]) == fragment {
			return true
		}
	}
	return false
}

// slug is a heading as a fragment: lower case, spaces to hyphens, the rest of
// what is no letter, digit, hyphen or underscore gone.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
			return r
		}
		return -1
	}, strings.ToLower(heading))
}
