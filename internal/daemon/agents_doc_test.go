package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"durafs/internal/daemon"
	"durafs/internal/need"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// TestAgentsDocument runs what docs/agents.md shows: its Go as one program, and
// its commands.
func TestAgentsDocument(t *testing.T) {
	need.Program(t, "curl", "curl")
	need.Program(t, "jq", "jq")
	text, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	shell := shellBlock.FindAllStringSubmatch(string(text), -1)
	code := goBlock.FindAllStringSubmatch(string(text), -1)
	if len(shell) != 2 || len(code) != 3 {
		t.Fatalf("docs/agents.md has %d blocks of commands and %d of Go", len(shell), len(code))
	}
	d, _ := serve(t, daemon.Config{Store: filepath.Join(shortDir(t), "s")})
	dir := t.TempDir()
	program := agentsProgram(code[0][1], code[1][1], code[2][1])
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "DURAFS_SOCKET="+d.Config().Socket, "PATH="+filepath.Dir(buildProgram(t))+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return string(out)
	}
	if out := run("go", "run", filepath.Join(dir, "main.go")); !strings.Contains(out, `"text":"4 words"`) || !strings.Contains(out, "resumed") {
		t.Errorf("the Go program printed %s", out)
	}
	if out := run("sh", "-eu", "-c", shell[0][1]); !strings.Contains(out, `"42 words"`) || !strings.HasSuffix(out, "terminal\n") {
		t.Errorf("the session in curl showed\n%s", out)
	}
	sample := strings.ReplaceAll(strings.ReplaceAll(shell[1][1], "go run durafs/examples/agent", build(t, agentPath)), "texts", dir+"/texts")
	if out := run("sh", "-eu", "-c", sample); !strings.Contains(out, "- a.txt: 3\n- b.txt: 2\n") || !strings.Contains(out, "chart") {
		t.Errorf("the sample showed\n%s", out)
	}
}

// agentsProgram is a program around the three pieces of Go: an agent, one that
// resumes, and an owner who decides.
func agentsProgram(agent, resume, decide string) string {
	return `package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"durafs/control"
)

func agent(ctx context.Context, file string) error {
` + strings.Replace(agent, "_, err = run.Settle", "fmt.Println(answer)\n_, err = run.Settle", 1) + `	return err
}

func resume(ctx context.Context, id string) error {
	var c control.Client
` + resume + `	if err != nil {
		return err
	}
	defer run.Close()
	fmt.Println("resumed", run.ID())
	return nil
}

func decide(ctx context.Context, id string, call uint64) error {
	var c control.Client
	_, etag, err := c.Get(ctx, id)
	if err != nil {
		return err
	}
` + decide + `	fmt.Println(p.Epoch)
	return err
}

// lost starts a run whose agent is lost, with an open call.
func lost(ctx context.Context, safety, phase string) (string, error) {
	var c control.Client
	lease := int64(500)
	s, err := c.Start(ctx, control.StartRequest{LeaseMS: &lease})
	if err != nil {
		return "", err
	}
	id := s.Record.ID
	if _, err := c.WithWriter(s.Writer).Claim(ctx, id, control.ClaimRequest{CallID: "c", Name: "t", Safety: safety}); err != nil {
		return "", err
	}
	for {
		rec, _, err := c.Get(ctx, id)
		if err != nil || rec.Phase == phase {
			return id, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func all(ctx context.Context) error {
	file := os.Args[0] + ".txt"
	if err := os.WriteFile(file, []byte("four words are here"), 0o600); err != nil {
		return err
	}
	if err := agent(ctx, file); err != nil {
		return err
	}
	id, err := lost(ctx, control.ReadOnly, control.PhasePausedInterruption)
	if err != nil {
		return err
	}
	if err := resume(ctx, id); err != nil {
		return err
	}
	if id, err = lost(ctx, control.Mutating, control.PhasePausedSideEffectUncertain); err != nil {
		return err
	}
	for range 500 { // its lease once more: its agent might come back
		if err = decide(ctx, id, 1); control.Code(err) != control.CodeAttachWindow {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := all(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`
}
