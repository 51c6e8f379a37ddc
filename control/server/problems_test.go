package server

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"durafs/cas"
	"durafs/control"
	"durafs/runs"
	"durafs/wal"
)

// TestEveryErrorHasItsProblem walks the sources of the packages below for
// exported errors: each must be a row of the table, and each row must be an
// error that exists.
func TestEveryErrorHasItsProblem(t *testing.T) {
	have := map[string]bool{}
	for _, m := range mappings {
		have[m.name] = true
	}
	want := map[string]bool{"runs.Refusal": true}
	for _, pkg := range []string{"wal", "cas", "runs"} {
		for _, name := range exportedErrors(t, filepath.Join("..", "..", pkg)) {
			want[pkg+"."+name] = true
		}
	}
	for name := range want {
		if !have[name] {
			t.Errorf("%s has no row in mappings: what does a client get for it?", name)
		}
	}
	for name := range have {
		if pkg, _, ok := strings.Cut(name, "."); ok && pkg != "context" && !want[name] {
			t.Errorf("mappings has %s, which does not exist", name)
		}
	}
}

// exportedErrors are a package's Err… variables and …Error types.
func exportedErrors(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			names = append(names, declaredErrors(decl)...)
		}
	}
	if len(names) == 0 && filepath.Base(dir) != "runs" {
		t.Fatalf("no error found in %s: this test looks in the wrong place", dir)
	}
	return names
}

func declaredErrors(decl ast.Decl) (names []string) {
	gen, ok := decl.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range gen.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if gen.Tok == token.VAR && strings.HasPrefix(n.Name, "Err") {
					names = append(names, n.Name)
				}
			}
		case *ast.TypeSpec:
			if s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Error") {
				names = append(names, s.Name.Name)
			}
		}
	}
	return names
}

// TestEveryCodeHasItsStatus: the domain's codes, each once, with a 4xx (or 507
// for a run that is full).
func TestEveryCodeHasItsStatus(t *testing.T) {
	codes := runs.Codes()
	for _, c := range codes {
		p := refusalProblem(&runs.Refusal{Code: c, Detail: "x"})
		if p.Status/100 != 4 && c != runs.RunFull {
			t.Errorf("%s answers %d", c, p.Status)
		}
		if p.Title == "" || p.Type == "" {
			t.Errorf("%s: %+v", c, p)
		}
	}
	if len(codes) != len(refusalStatus) {
		t.Errorf("%d codes, %d with a status", len(codes), len(refusalStatus))
	}
	if p := refusalProblem(&runs.Refusal{Code: "of a later version"}); p.Status != 500 {
		t.Errorf("a code that nobody knows answers %d", p.Status)
	}
}

func TestProblemOf(t *testing.T) {
	free, inodes := int64(5), int64(7)
	for _, c := range []struct {
		err  error
		want control.Problem // but type, title, detail
	}{
		{fmt.Errorf("append: %w", wal.ErrBusy), control.Problem{Status: 503, Code: "busy", Retryable: true}},
		{wal.ErrUnknown, control.Problem{Status: 500, Code: "outcome-unknown"}},
		{wal.ErrPoisoned, control.Problem{Status: 503, Code: "poisoned"}},
		{cas.ErrPoisoned, control.Problem{Status: 503, Code: "poisoned"}},
		{&wal.NoSpaceError{Mount: "/m", FreeBytes: 5, FreeInodes: 7}, control.Problem{Status: 507, Code: "no-space", Retryable: true, Mount: "/m", FreeBytes: &free, FreeInodes: &inodes}},
		{fmt.Errorf("put: %w", &cas.NoSpaceError{Mount: "/m", FreeBytes: 5, FreeInodes: -1}), control.Problem{Status: 507, Code: "no-space", Retryable: true, Mount: "/m", FreeBytes: &free}},
		{&cas.DamageError{File: "pack", Offset: 9}, control.Problem{Status: 500, Code: "damaged", File: "pack", Offset: 9}},
		{&runs.Refusal{Code: runs.RevisionMismatch, Detail: "d", ETag: "1-2", Revision: 2}, control.Problem{Status: 412, Code: "revision-mismatch", Revision: 2, ETag: "1-2"}},
		{errors.New("anything"), control.Problem{Status: 500, Code: "internal"}},
		// Both an unknown outcome and a full disk: the worse is the truth.
		{fmt.Errorf("%w (%w)", wal.ErrUnknown, &wal.NoSpaceError{}), control.Problem{Status: 500, Code: "outcome-unknown"}},
	} {
		got := *problemOf(c.err)
		if got.Title == "" || got.Detail == "" || got.Type != "urn:durafs:problem:"+got.Code {
			t.Errorf("%v: %+v", c.err, got)
		}
		got.Type, got.Title, got.Detail = "", "", ""
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v, want %+v", c.err, got, c.want)
		}
	}
}
