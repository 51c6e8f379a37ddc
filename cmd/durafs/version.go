package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"durafs/control"
	"durafs/store"
)

// version is set by the linker of a release.
var version = "0.0.0-dev"

// versionInfo is what `version --json` prints.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Format   int    `json:"format_version"`
	API      string `json:"api"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of the program, its store format and its API",
		GroupID: groupStore,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runVersion(a, asJSON) },
	}
	addJSONFlag(cmd.Flags(), &asJSON, "print one JSON object")
	return cmd
}

func runVersion(a *app, asJSON bool) error {
	v := readVersion()
	if asJSON {
		return a.printJSON(v)
	}
	revision := ""
	if v.Revision != "" {
		revision = " (" + v.Revision[:min(12, len(v.Revision))] + ")"
	}
	_, err := fmt.Fprintf(a.stdout, "durafs %s%s, store format %d, API %s, %s %s\n",
		v.Version, revision, v.Format, v.API, v.Go, v.Platform)
	return err
}

func readVersion() versionInfo {
	v := versionInfo{
		Version: version, Format: store.FormatVersion, API: control.APIVersion,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
