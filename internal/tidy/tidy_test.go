package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// report fails the test with each finding of check, and fails too where check
// finds nothing in bad, a file that breaks the rule: a check that cannot find
// is no check.
func report(t *testing.T, check func(*source) []string, bad ...*source) {
	t.Helper()
	for _, s := range sources(t) {
		for _, finding := range check(s) {
			t.Error(finding)
		}
	}
	for _, s := range bad {
		if len(check(s)) == 0 {
			t.Errorf("the check finds nothing in:\n%s", s.text)
		}
	}
}

func layerOf(pkg string) (int, bool) {
	for pattern, layer := range layers {
		if within(pkg, pattern) {
			return layer, true
		}
	}
	return 0, false
}

func TestImportsGoDown(t *testing.T) {
	report(t, importsUpwards,
		parse(t, "wal/x.go", `package wal; import _ "durafs/runs"`),
		parse(t, "wal/x.go", `package wal; import _ "durafs/cas"`),
		parse(t, "control/x.go", `package control; import _ "durafs/internal/vfs"`),
		parse(t, "somewhere/x.go", `package somewhere`))
}

func importsUpwards(s *source) (findings []string) {
	own, ok := layerOf(s.pkg)
	if !ok {
		return []string{s.path + ": the package has no layer; give it one in internal/tidy/rules.go"}
	}
	if s.test {
		return nil // a test may look from above
	}
	for _, p := range s.imports() {
		p, ours := strings.CutPrefix(p, module+"/")
		if layer, ok := layerOf(p); ours && ok && layer >= own {
			findings = append(findings, fmt.Sprintf(
				"%s imports %s, which is not below it; declare the hook you need in %s and let the one above fill it in", s.path, p, s.pkg))
		}
	}
	return findings
}

func TestOutsideImports(t *testing.T) {
	report(t, outsideImports,
		parse(t, "view/x.go", `package view; import _ "github.com/hanwen/go-fuse/v2/fuse"`),
		parse(t, "cas/x.go", `package cas; import _ "os"`),
		parse(t, "runs/x.go", `package runs; import _ "net/http"`))
}

func outsideImports(s *source) (findings []string) {
	if s.test {
		return nil
	}
	for _, p := range s.imports() {
		for _, r := range importRules {
			if within(p, r.path) && ((r.only != nil && !withinAny(s.pkg, r.only)) || withinAny(s.pkg, r.not)) {
				findings = append(findings, fmt.Sprintf("%s imports %s: %s", s.path, p, r.instead))
			}
		}
	}
	return findings
}

func TestCalls(t *testing.T) {
	report(t, calls,
		parse(t, "store/x.go", `package store; import "os"; func f() { os.Rename("a", "b") }`),
		parse(t, "runs/x.go", `package runs; import clock "time"; var f = clock.Now`))
}

// calls finds uses, not only calls: a function that is passed on is called too.
func calls(s *source) (findings []string) {
	if s.test {
		return nil
	}
	imports := s.imports()
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		for _, r := range callRules {
			if imports[pkg.Name] != r.path || !slices.Contains(r.names, sel.Sel.Name) ||
				withinAny(s.pkg, r.only) || withinAny(s.path, r.only) {
				continue
			}
			findings = append(findings, fmt.Sprintf("%s:%d: %s.%s: use %s", s.path, s.line(sel.Pos()), r.path, sel.Sel.Name, r.instead))
		}
		return true
	})
	return findings
}

func TestGoroutinesStartInListedFiles(t *testing.T) {
	seen := map[string]bool{}
	report(t, func(s *source) []string {
		found := goroutines(s)
		if len(found) > 0 {
			seen[s.path] = true
		}
		if goroutineFiles[s.path] != "" {
			return nil
		}
		return found
	}, parse(t, "wal/x.go", `package wal; func f() { go f() }`),
		parse(t, "wal/x.go", `package wal; import "sync"; func f() { var wg sync.WaitGroup; wg.Go(func() {}) }`))
	for file := range goroutineFiles {
		if !seen[file] {
			t.Errorf("%s is listed in goroutineFiles and starts none: take it out", file)
		}
	}
}

// goroutines finds go statements, and the Go methods of wait and error groups
// and of servers that are given a function.
func goroutines(s *source) (findings []string) {
	if s.test || within(s.pkg, "bench/...") || s.pkg == "internal/vfs/vfstest" {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		starts := false
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			starts = ok && sel.Sel.Name == "Go" && len(n.Args) == 1
		}
		if starts {
			findings = append(findings, fmt.Sprintf(
				"%s:%d starts a goroutine; let the caller run it, or list the file in internal/tidy/rules.go with how many run and until when", s.path, s.line(n.Pos())))
		}
		return true
	})
	return findings
}

func TestErrorsAreNotMatchedByText(t *testing.T) {
	report(t, textMatches,
		parse(t, "wal/x.go", `package wal; func f(err error) bool { return strings.Contains(err.Error(), "closed") }`),
		parse(t, "wal/x.go", `package wal; func f(err error) bool { return err.Error() == "closed" }`))
}

func textMatches(s *source) (findings []string) {
	if s.test {
		return nil
	}
	find := func(n ast.Node, exprs ...ast.Expr) {
		for _, e := range exprs {
			call, ok := e.(*ast.CallExpr)
			if !ok {
				continue
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" && len(call.Args) == 0 {
				findings = append(findings, fmt.Sprintf("%s:%d matches an error by its text: errors.Is or errors.As", s.path, s.line(n.Pos())))
			}
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				find(n, n.X, n.Y)
			}
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Contains", "HasPrefix", "HasSuffix", "EqualFold"}, sel.Sel.Name) && len(n.Args) == 2 {
				find(n, n.Args[0])
			}
		}
		return true
	})
	return findings
}

func TestSizes(t *testing.T) {
	long := "package wal\nfunc f() {\n" + strings.Repeat("f()\n", funcLinesMax) + "}\n"
	report(t, sizes,
		parse(t, "wal/x.go", long),
		parse(t, "wal/x.go", "package wal\n"+strings.Repeat("\n", fileLinesMax)))
}

func sizes(s *source) (findings []string) {
	if n := strings.Count(s.text, "\n"); n > fileLinesMax {
		findings = append(findings, fmt.Sprintf("%s has %d lines, at most %d: split it by concept", s.path, n, fileLinesMax))
	}
	if s.test {
		return findings
	}
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := s.line(f.End()) - s.line(f.Pos()); n > funcLinesMax {
			findings = append(findings, fmt.Sprintf("%s:%d: %s has %d lines, at most %d: name its parts", s.path, s.line(f.Pos()), f.Name.Name, n, funcLinesMax))
		}
	}
	return findings
}

func TestSkipsFailInCI(t *testing.T) {
	report(t, skips, parse(t, "wal/x_test.go", `package wal; func TestX(t *testing.T) { t.Skip("no FUSE") }`))
}

// skips finds skips in functions that do not look whether CI is set: what was
// not tested must not look tested. Short tests were asked for, and so were those
// that a flag asks for ("needs -flag").
func skips(s *source) (findings []string) {
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		body := s.text[s.fset.Position(f.Pos()).Offset:s.fset.Position(f.End()).Offset]
		if strings.Contains(body, `"CI"`) || strings.Contains(body, "testing.Short()") || strings.Contains(body, `Skip("needs -`) {
			continue
		}
		drawn := rapidParams(f)
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) && !drawn[fmt.Sprint(sel.X)] {
				findings = append(findings, fmt.Sprintf(
					`%s:%d: a skip that CI does not see; ask internal/need, which fails where CI is set`, s.path, s.line(n.Pos())))
			}
			return true
		})
	}
	return findings
}

// rapidParams names the parameters of type *rapid.T: their Skip draws another
// step and skips no test.
func rapidParams(f ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		ptr, ok := field.Type.(*ast.StarExpr)
		if !ok {
			return true
		}
		if sel, ok := ptr.X.(*ast.SelectorExpr); ok && fmt.Sprint(sel.X) == "rapid" {
			for _, name := range field.Names {
				names[name.Name] = true
			}
		}
		return true
	})
	return names
}
