package fusefs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"durafs/runs"
	"durafs/view"
	"durafs/wal"
)

// notAnswers are exported errors that no handler meets.
var notAnswers = []string{
	"fusefs.ErrInUse", // of Unmount
	"runs.Refusal",    // by its code, in a table of its own
}

// TestEveryErrorHasAnErrno walks the sources of the packages beneath for
// errors that they export.
func TestEveryErrorHasAnErrno(t *testing.T) {
	var have []string
	for _, row := range errnos {
		have = append(have, row.name)
	}
	found := 0
	for _, pkg := range []string{"runs", "wal", "cas", "view", "fusefs"} {
		for _, name := range exportedErrors(t, "../"+pkg) {
			found++
			full := pkg + "." + name
			if !slices.Contains(have, full) && !slices.Contains(notAnswers, full) {
				t.Errorf("%s has no row in the table of errnos", full)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d errors were found", found)
	}
	for _, code := range runs.Codes() {
		if _, ok := refusals[code]; !ok {
			t.Errorf("the refusal %s has no errno", code)
		}
	}
	if len(refusals) != len(runs.Codes()) {
		t.Errorf("%d refusals have an errno, of %d that there are", len(refusals), len(runs.Codes()))
	}
}

// exportedErrors are a package's variables Err… and the types that are errors.
func exportedErrors(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			names = append(names, errorsOf(d)...)
		}
	}
	return names
}

func errorsOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl: // a method Error() makes its receiver one
		if d.Name.Name == "Error" && d.Recv != nil {
			typ := d.Recv.List[0].Type
			if p, ok := typ.(*ast.StarExpr); ok {
				typ = p.X
			}
			if id, ok := typ.(*ast.Ident); ok && id.IsExported() {
				names = append(names, id.Name)
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if d.Tok == token.VAR && strings.HasPrefix(id.Name, "Err") {
						names = append(names, id.Name)
					}
				}
			case *ast.TypeSpec: // an alias of another package's
				if s.Assign.IsValid() && strings.HasSuffix(s.Name.Name, "Error") && s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			}
		}
	}
	return names
}

func TestErrno(t *testing.T) {
	beneath := &os.PathError{Op: "open", Path: "000001.seg", Err: syscall.ENOENT}
	for _, c := range []struct {
		err  error
		want syscall.Errno
	}{
		{nil, 0},
		{view.ErrNotExist, syscall.ENOENT},
		{fmt.Errorf("of a run: %w", view.ErrStale), syscall.ESTALE},
		{fmt.Errorf("wal: read: %w", wal.ErrClosed), syscall.ESTALE}, // of a store that was reset
		{&runs.Refusal{Code: runs.UnknownRun}, syscall.ENOENT},
		{fmt.Errorf("wrapped: %w", &runs.Refusal{Code: runs.NotOwner}), syscall.EACCES},
		{&runs.Refusal{Code: "a-code-of-tomorrow"}, syscall.EIO},
		{&wal.DamageError{File: "000001.seg"}, syscall.EIO},
		{&wal.DamageError{File: "000001.seg", Err: beneath}, syscall.EIO},
		{&wal.NoSpaceError{Err: syscall.ENOSPC}, syscall.ENOSPC},
		{beneath, syscall.EIO}, // not a missing name in the mount
		{fs.ErrNotExist, syscall.EIO},
		{errors.New("anything"), syscall.EIO},
	} {
		if got := errno(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
