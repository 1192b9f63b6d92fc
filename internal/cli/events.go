package cli

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
)

func (a *app) eventsCommand() *cobra.Command {
	var (
		follow       bool
		o            shoal.EventsOptions
		since, until moment
		labels       []string
	)
	c := &cobra.Command{
		Use:     "events [SANDBOX]",
		Short:   "Show what happened to sandboxes",
		GroupID: groupServer,
		Long: `Show what happened to your sandboxes, or to one of them, oldest first, as far as it is kept. -f goes on as things happen, also when
the server was away meanwhile, for up to 3 minutes: nothing is missed or shown twice. With -o json each line is one event.`,
		Example: `  shoal events
  shoal events -f lab
  shoal events --type 'sandbox.*' --since 1h
  shoal events -f --type exec.ended --label team=data
  shoal events --after 41 -o json`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if o.Labels, err = pairs(labels, "--label", nil); err != nil {
				return err
			}
			if o.Since, o.Until = since.at, until.at; follow && !o.Until.IsZero() {
				return usage(c, "-f goes on, so --until is not for it")
			}
			if len(args) > 0 {
				if o.Sandbox = args[0]; len(labels) > 0 {
					return usage(c, "--label chooses among sandboxes: leave it or SANDBOX out")
				}
			}
			show := a.listEvents
			if follow {
				show = a.followEvents
			}
			err = show(c.Context(), client, o)
			if o.Sandbox != "" {
				err = withinSandbox(c.Context(), client, o.Sandbox, err)
			}
			return err
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as things happen")
	f := c.Flags()
	f.Int64Var(&o.After, "after", 0, "only events after this `NUMBER`, the first column")
	f.StringSliceVar(&o.Types, "type", nil, "only events of this `TYPE`, such as exec.ended or 'sandbox.*'; may be repeated")
	f.StringArrayVar(&labels, "label", nil, "only events of sandboxes with this label, as `KEY=VALUE`; may be repeated")
	f.StringVar(&o.Actor, "actor", "", "only what this `ACTOR` caused: a key's id, or a rule such as ttl")
	f.Var(&since, "since", "only what happened after this moment: 1h ago is 1h, or 2026-11-30T12:00:00Z")
	f.Var(&until, "until", "only what happened before this moment")
	return c
}

// eventPage is how many events are fetched at a time.
const eventPage = 1000

func (a *app) listEvents(ctx context.Context, c *shoal.Client, o shoal.EventsOptions) error {
	o.Limit = eventPage
	for {
		l, err := c.Events().List(ctx, o)
		if err != nil {
			return err
		}
		if o.After > 0 && l.Oldest > o.After+1 {
			fmt.Fprintf(a.err, "shoal: %v\n", &shoal.GapError{Oldest: l.Oldest, Missing: l.Missing})
		}
		for _, e := range l.Events {
			if err := a.printEvent(e); err != nil {
				return err
			}
		}
		if l.NextAfter == o.After {
			return nil
		}
		o.After = l.NextAfter
	}
}

func (a *app) followEvents(ctx context.Context, c *shoal.Client, o shoal.EventsOptions) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM)
	defer stop()
	o.Broken = func(why error) {
		if ctx.Err() == nil {
			fmt.Fprintf(a.err, "shoal: %v: trying to go on from there for 3 minutes\n", why)
		}
	}
	for e, err := range c.Events().Follow(ctx, o) {
		var gap *shoal.GapError
		switch {
		case errors.As(err, &gap):
			fmt.Fprintf(a.err, "shoal: %v\n", gap)
			continue
		case ctx.Err() != nil:
			return nil // Being interrupted is how this ends.
		case err != nil:
			return err
		}
		if err := a.printEvent(e); err != nil {
			return err
		}
	}
	return nil
}

// printEvent prints one line. Columns have fixed widths, because the next event isn't known yet.
func (a *app) printEvent(e shoal.Event) error {
	if a.json() {
		return a.printLine(e)
	}
	_, err := fmt.Fprintf(a.out, "%-8s %s  %-18s %-22s %s\n", strconv.FormatInt(e.Seq, 10),
		e.At.Local().Format("2006-01-02 15:04:05.000"), printable(e.Type), printable(orDash(e.SandboxID)),
		printable(joinPairs(e.Data)))
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
