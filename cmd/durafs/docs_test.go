package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/cmd/durafs/internal/child"
)

// docs/cli.md names every command, every flag and every exit code.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs := string(b)
	missing := func(what string) {
		if !strings.Contains(docs, what) {
			t.Errorf("docs/cli.md does not tell of %q", what)
		}
	}
	eachCommand(testRoot(), func(cmd *cobra.Command) {
		missing(strings.TrimPrefix(cmd.CommandPath(), "durafs "))
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				missing("--" + f.Name)
			}
		})
	})
	for _, code := range []int{exitOK, exitFailed, exitUsage, exitAway, exitExec, child.ExitNotExecutable, child.ExitNotFound} {
		missing(fmt.Sprintf("| %d |", code))
	}
}

// Every command says what it does, and every flag too; all but a few can
// print JSON.
func TestHelp(t *testing.T) {
	noJSON := []string{"durafs", "durafs serve", "durafs run"}
	eachCommand(testRoot(), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its short help is %q", path, cmd.Short)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: its help is %q", path, f.Name, f.Usage)
			}
		})
		without := false
		for _, name := range noJSON {
			without = without || name == path
		}
		if has := cmd.Flags().Lookup("json") != nil; has == without {
			t.Errorf("%s: --json %v", path, has)
		}
		if cmd.HasParent() && !cmd.Parent().HasParent() && cmd.GroupID == "" {
			t.Errorf("%s has no group in the help", path)
		}
	})
}

func testRoot() *cobra.Command {
	return newRootCommand(&app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard})
}

// eachCommand calls fn for the commands that are ours.
func eachCommand(cmd *cobra.Command, fn func(*cobra.Command)) {
	fn(cmd)
	for _, c := range cmd.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			eachCommand(c, fn)
		}
	}
}
