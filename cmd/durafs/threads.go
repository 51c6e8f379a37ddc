package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// ThreadsOptions says what of threads to print, or to post.
type ThreadsOptions struct {
	SocketOption
	Post string
	Key  string
	JSON bool
}

// AddFlags adds the flags of threads.
func (o *ThreadsOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.StringVar(&o.Post, "post", "", "add this turn of the user to the thread: a JSON value, or a text")
	f.StringVar(&o.Key, "idempotency-key", "", "posting with the same key again posts once")
	addJSONFlag(f, &o.JSON, "print a thread, or a message, a line, as JSON")
}

func newThreadsCommand(a *app) *cobra.Command {
	var o ThreadsOptions
	cmd := &cobra.Command{
		Use:   "threads [THREAD]",
		Short: "List threads, print one, or post to it",
		Long: `List the threads that there are; or print the messages of one, oldest first: the
turns of its user, and how each of its runs ended.`,
		GroupID: groupRead,
		Example: "  durafs threads\n  durafs threads trip --post 'and back?'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && o.Post != "":
				return runThreadPost(cmd.Context(), a, o, args[0])
			case len(args) == 1:
				return runThread(cmd.Context(), a, o, args[0])
			case o.Post != "":
				return badUsage(cmd, "--post needs a thread")
			}
			return runThreads(cmd.Context(), a, o)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runThreads(ctx context.Context, a *app, o ThreadsOptions) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	t := term.NewTable(a.stdout, "THREAD", "MESSAGES", "BYTES", "LAST")
	for after := ""; ; {
		page, err := c.Threads(ctx, after, 0)
		if err != nil {
			return err
		}
		for _, i := range page.Threads {
			if o.JSON {
				if err := a.printJSON(i); err != nil {
					return err
				}
				continue
			}
			t.Row(term.Safe(i.Thread), strconv.Itoa(i.Messages), strconv.FormatInt(i.Bytes, 10), timeText(i.LastAt))
		}
		if after = page.Next; after != "" {
			continue
		}
		if o.JSON {
			return nil
		}
		return t.Flush()
	}
}

func runThread(ctx context.Context, a *app, o ThreadsOptions, name string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	var pages [][]control.Message // newest first
	for before := uint64(0); ; {
		p, err := c.Thread(ctx, name, before, 0)
		if err != nil {
			return err
		}
		pages = append(pages, p.Messages)
		if before = p.Before; before == 0 {
			break
		}
	}
	for i := len(pages) - 1; i >= 0; i-- {
		for _, m := range pages[i] {
			if o.JSON {
				err = a.printJSON(m)
			} else {
				_, err = fmt.Fprintln(a.stdout, messageText(&m))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// messageText is a message for people.
func messageText(m *control.Message) string {
	text := m.Text
	switch {
	case m.Digest != "":
		text = m.Digest + "… (its payload has all of it)"
	case m.Role == "user":
		text = string(m.Message)
	}
	who := m.Role
	if m.Status != "" {
		who += " (" + m.Status + ", " + m.Run + ")"
	}
	return fmt.Sprintf("%s  %s: %s", timeText(m.At), term.Safe(who), term.Safe(text))
}

func runThreadPost(ctx context.Context, a *app, o ThreadsOptions, name string) error {
	message := messageJSON(o.Post)
	if message == nil {
		return errors.New("there is nothing to post")
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	p, err := c.Post(ctx, name, message, o.Key)
	if err != nil || !o.JSON {
		return err
	}
	return a.printJSON(p)
}
