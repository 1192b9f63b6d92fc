package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

const forkHelp = `Make sandboxes that start with the files that another one has at this moment, and print their ids. It may run, which it goes on to do, or be
stopped, which it stays, or have failed. What it has written is in all of them; its processes and what is in its memory are in none.

Each has an id, a host name and a machine id of its own. It has the environment and the limits of the one that it is made of, unless a flag
says otherwise, and neither its labels nor what ends it: a fork is deleted after the ttl, 1 h unless --ttl says otherwise or the server is
configured so; --persistent, --idle and --rule are as for 'shoal create'.

All of them are made, or none. If there is no room for so many, the error says how many would fit; if it is interrupted, what there is of them
is undone. 'shoal get' shows what a sandbox was forked from. Forks live on when that is deleted.`

func forkCommand(a *app) *cobra.Command {
	var (
		s           sandboxFlags
		env, labels []string
		count       int
		prefix      string
		persistent  bool
		ttl         lifetime
		idle        idleFlags
		rules       ruleFlags
	)
	c := &cobra.Command{
		Use:        "fork SANDBOX",
		Short:      "Make copies of a sandbox's files, a sandbox each",
		GroupID:    groupSandbox,
		SuggestFor: []string{"clone", "copy", "branch"},
		Long:       forkHelp,
		Example: `  shoal fork lab
  shoal fork lab -n 10 --name try- --ttl 10m --label task=42
  shoal fork lab -n 2 -e SEED=7 --memory 256M -o json
  for id in $(shoal fork lab -n 3); do shoal exec $id -- ./try & done`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := s.request()
			if err == nil {
				r.Env, err = pairs(env, "-e", a.lookup)
			}
			if err == nil {
				r.Labels, err = pairs(labels, "--label", nil)
			}
			if err == nil && (count < 1 || count > 100) {
				err = errors.New("-n is from 1 to 100")
			}
			r.Persistent, r.TTLSeconds = persistent, ttl.seconds()
			if err == nil {
				err = idle.create(&r)
			}
			if err == nil {
				err = rules.create(&r)
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			req := forkRequest(r)
			req.Count = &count
			if prefix != "" && count == 1 {
				req.Names = []string{prefix}
			} else {
				req.NamePrefix = prefix
			}
			list, err := client.Sandboxes().Fork(c.Context(), args[0], req)
			if err != nil {
				return aboutSandbox(args[0], err)
			}
			if a.json() {
				return a.printJSON(list)
			}
			for _, sb := range list {
				fmt.Fprintln(a.out, sb.ID)
			}
			return nil
		},
	}
	f := c.Flags()
	f.IntVarP(&count, "count", "n", 1, "make `N` of them, up to 100")
	f.StringVar(&prefix, "name", "", "the `NAME` of the fork; of several, what their names begin with, which end in 0, 1, 2 and so on")
	s.addLimits(c)
	f.BoolVar(&persistent, "persistent", false, "keep them until they are deleted: no ttl")
	f.Var(&ttl, "ttl", "delete them after this `duration`, such as 30m, 2h or 7d (default: the server's, 1h unless configured)")
	idle.add(c, "delete one, or do --on-idle, when nobody has used it for this `duration`, such as 15m")
	rules.add(c, "a further `RULE` of their lifecycle, such as age=8h:delete; may be repeated")
	f.StringArrayVarP(&env, "env", "e", nil, "environment variable beside those of the sandbox, `KEY=VALUE`, or KEY to pass on our own if it is set here; may be repeated")
	f.StringArrayVar(&labels, "label", nil, "label `KEY=VALUE` to find them by; may be repeated")
	return c
}

// forkRequest takes what holds for a new sandbox over into a fork.
func forkRequest(r shoal.CreateSandboxRequest) shoal.ForkSandboxRequest {
	return shoal.ForkSandboxRequest{
		Persistent: r.Persistent, TTLSeconds: r.TTLSeconds, IdleSeconds: r.IdleSeconds, OnIdle: r.OnIdle, Rules: r.Rules, VCPUs: r.VCPUs,
		MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes, Pids: r.Pids, OpenFiles: r.OpenFiles, CPUWeight: r.CPUWeight, IOWeight: r.IOWeight,
		Env: r.Env, Labels: r.Labels,
	}
}
