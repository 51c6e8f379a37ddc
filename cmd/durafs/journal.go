package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"durafs/internal/term"
)

// JournalOptions are the flags of journal.
type JournalOptions struct {
	SocketOption
	After uint64
	JSON  bool
}

func newJournalCommand(a *app) *cobra.Command {
	var o JournalOptions
	cmd := &cobra.Command{
		Use:   "journal [TARGET]",
		Short: "Print the journal of a target",
		Long: `Print the journal of a target, oldest row first: which of its runs began, and
how they ended. Without a target it is that of master.`,
		GroupID: groupRead,
		Example: "  durafs journal --json site:https://example.org | jq .type",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			target := "master"
			if len(args) == 1 {
				target = args[0]
			}
			return runJournal(cmd.Context(), a, o, target)
		},
	}
	o.SocketOption.AddFlags(cmd.Flags())
	cmd.Flags().Uint64Var(&o.After, "after", 0, "begin behind the row with this lsn")
	addJSONFlag(cmd.Flags(), &o.JSON, "print one JSON object for each row")
	return cmd
}

func runJournal(ctx context.Context, a *app, o JournalOptions, target string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	rows, err := c.Journal(ctx, target, o.After)
	if err != nil {
		return err
	}
	for _, row := range rows {
		text := string(row)
		if !o.JSON {
			text = journalText(row)
		}
		if _, err := fmt.Fprintln(a.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// journalText is a row for people: when, what, and its other fields.
func journalText(row []byte) string {
	var head struct {
		Time time.Time `json:"time"`
		Type string    `json:"type"`
	}
	json.Unmarshal(row, &head) // a field of another kind stays empty
	text := timeText(head.Time) + "  " + head.Type
	fields, err := rowFields(row)
	if err != nil {
		return term.Safe(string(row))
	}
	for _, f := range fields {
		switch f.name {
		case "lsn", "time", "type":
		default:
			text += " " + f.name + "=" + f.value
		}
	}
	return term.Safe(text)
}
