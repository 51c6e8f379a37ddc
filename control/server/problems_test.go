package server

import (
	"encoding/json"
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
	"time"

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

// TestEveryCodeHasItsStatus: the domain's codes, each once, with a 4xx, or 507
// where a run or the store is full.
func TestEveryCodeHasItsStatus(t *testing.T) {
	codes := runs.Codes()
	for _, c := range codes {
		p := refusalProblem(&runs.Refusal{Code: c, Detail: "x"})
		full := c == runs.RunFull || c == runs.RunBytes || c == runs.StoreBytes
		if p.Status/100 != 4 && !full || full != (p.Status == 507 && p.Scope != "") {
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

// TestRefusalIsWhole: what a refusal says reaches the program that asked, over
// the socket, and its answer is as described. Each field is set here, so that a
// new one is noticed.
func TestRefusalIsWhole(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	r := &runs.Refusal{
		Code: runs.AttachWindow, Detail: "d", Field: "f", Limit: 1, Size: 2, Row: 3, Seq: 4, ETag: "5-6", Revision: 6, Phase: "running",
		Holder: "exec_h", Call: 7, State: "open", At: at, RetryAfter: 1001 * time.Millisecond,
		Committed: &runs.Committed{Call: 7, Outcome: []byte(`{"a":1}`), Projection: []byte(`{"v":1,"status":"ok","parts":[]}`), ByStore: true, Replayed: true, Refused: "late"},
	}
	v := reflect.ValueOf(*r)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && v.Field(i).IsZero() {
			t.Errorf("this test leaves %s out", f.Name)
		}
	}
	f := newFake()
	f.onStart = func() error { return r }
	d := serve(t, f)
	a := d.do("POST", "/v1/runs", `{}`, "Content-Type", typeJSON)
	if a.status != 409 || a.header.Get("Retry-After") != "2" {
		t.Errorf("%d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
	desc, _ := describe(t)
	var answer any
	if err := json.Unmarshal([]byte(a.body), &answer); err != nil {
		t.Fatal(err)
	}
	if err := (validator{desc.Components.Schemas}).check(desc.Components.Schemas["Problem"], answer, "answer"); err != nil {
		t.Errorf("%v\n%s", err, a.body)
	}
	_, err := d.client().Start(t.Context(), control.StartRequest{})
	p, ok := errors.AsType[*control.Problem](err)
	if !ok {
		t.Fatal(err)
	}
	p.Type, p.Title, p.Detail = "", "", ""
	want := &control.Problem{
		Status: 409, Code: "attach-window", Retryable: true, Field: "f", Limit: 1, Size: 2, Row: 3, Seq: 4, ETag: `"5-6"`, Revision: 6,
		Phase: "running", Holder: "exec_h", Call: 7, State: "open", At: &at, RetryAfterMS: 1001,
		Committed: &control.Committed{Call: 7, Outcome: r.Committed.Outcome, Projection: r.Committed.Projection, ByStore: true, Replayed: true, Refused: "late"},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
}
