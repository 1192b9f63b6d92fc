package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shoal/api"
	shoal "shoal/sdk/go"
)

// sandboxFlags say what sandbox is made: the flags that run and create share.
type sandboxFlags struct {
	template string
	vcpus    float64
	memory   byteSize
	disk     diskLimit
	limits   limitFlags
	// given reports whether a flag was given.
	given func(flag string) bool
}

func (s *sandboxFlags) add(a *app, c *cobra.Command) {
	f := c.Flags()
	s.given = f.Changed
	f.StringVar(&s.template, "template", "", "the `TEMPLATE` it starts from: see 'shoal template ls' (default minimal)")
	f.Float64Var(&s.vcpus, "vcpus", 0, "limit of processor time in `VCPUS`, such as 0.5 or 2 (default: the server's, 1 unless configured)")
	f.Var(&s.memory, "memory", "limit of memory, such as 512M or 4G (default: the server's, 512M unless configured)")
	f.Var(&s.disk, "disk", "limit of what it writes to its disk, such as 4G (default: the server's, 4G or no limit)")
	s.limits.add(f)
	_ = c.RegisterFlagCompletionFunc("template", a.complete().templates)
}

// addLimits adds the flags of limits, which are another sandbox's if they are not given.
func (s *sandboxFlags) addLimits(c *cobra.Command) {
	f := c.Flags()
	s.given = f.Changed
	f.Float64Var(&s.vcpus, "vcpus", 0, "limit of processor time in `VCPUS`, such as 0.5 or 2 (default: the sandbox's)")
	f.Var(&s.memory, "memory", "limit of memory, such as 512M or 4G (default: the sandbox's)")
	f.Var(&s.disk, "disk", "limit of what each writes to its disk, such as 4G (default: the sandbox's)")
	f.Var(&s.limits.pids, "pids", "limit of processes and threads together (default: the sandbox's)")
	f.Var(&s.limits.openFiles, "open-files", "limit of open files of each process (default: the sandbox's)")
	f.Var(&s.limits.cpuWeight, "cpu-weight", "share of processor time when sandboxes together want more than there is (default: the sandbox's)")
	f.Var(&s.limits.ioWeight, "io-weight", "share of the disk's bandwidth when sandboxes together want more than there is (default: the sandbox's)")
}

func (s *sandboxFlags) request() (shoal.CreateSandboxRequest, error) {
	req := shoal.CreateSandboxRequest{Template: s.template}
	if s.given("vcpus") {
		if !(s.vcpus > 0) { // also refuses NaN
			return req, errors.New("--vcpus must be above 0")
		}
		req.VCPUs = &s.vcpus
	}
	req.MemoryBytes, req.DiskBytes = s.memory.bytes(), s.disk.bytes()
	req.Pids, req.OpenFiles = s.limits.pids.value(), s.limits.openFiles.value()
	req.CPUWeight, req.IOWeight = s.limits.cpuWeight.value(), s.limits.ioWeight.value()
	return req, nil
}

const createHelp = `Make a sandbox that goes on until it is deleted or its ttl passes, and print its id. The ttl is 1 h unless --ttl says
otherwise or the server is configured so; a persistent sandbox, and one that --idle or --rule deletes, has none unless --ttl is given too.
'shoal set' changes it.

With --idle it is deleted when nobody has used it for so long, or with --on-idle stop it is stopped: its processes end, its files stay, and 'shoal
wake' starts it again. Every command that runs or reads something in it is use, and so
is what its processes print, and a shell or a followed exec for as long as it is open; ls, get, why and events are not, and a silent
process isn't.

--rule says more of that, in the form on[=after|@time][,state=STATE]:ACTION. on is age (from the creation), deadline (a moment), idle (from the
last use) or time_in_state (from when it came into the state running, stopped or failed); ACTION is stop or delete. The rule that is due first
acts; of two at one moment one that deletes does. Those on age and deadline act once. 'shoal why' shows which comes next. What isn't persistent
and has no ttl, nor a rule on age, deadline or idle that deletes it, gets the default ttl.

It is answered when processes can be started in the sandbox. If its template is still being made, this waits and shows how
far that is. Commands take the name or the id; a name is lower-case letters, digits and -, and can be used again once its
sandbox is deleted.

With --from it starts with the files of a checkpoint, and with the limits that the sandbox had of which that was made, unless others are given;
not with its labels, environment or lifecycle.

With --get-or-create, a sandbox that has the name already is the answer, if it is as asked for: another template, size or
environment than one that is given is an error, and its ttl, idle rule and labels stay as they are.

With --count N it makes N, several at a time, and prints the id of each as soon as it runs; --name is then what their names
begin with, and they end in 0, 1, 2 and so on. If some can't be made it says why, and the exit code is 125. If it is interrupted, those whose
ids it has printed stay.`

func (a *app) createCommand() *cobra.Command {
	var (
		s           sandboxFlags
		req         shoal.CreateSandboxRequest
		env, labels []string
		ttl         lifetime
		idle        idleFlags
		rules       ruleFlags
		many        manyFlags
	)
	c := &cobra.Command{
		Use:        "create",
		Short:      "Make a sandbox and print its id",
		GroupID:    groupSandbox,
		SuggestFor: []string{"new", "add", "up", "launch"},
		Long:       createHelp,
		Example: `  shoal create
  shoal create --name lab --template base --ttl 8h --memory 2G --vcpus 2
  shoal create --name session --ttl 1d --idle 15m
  shoal create --name dev --persistent --idle 10m --on-idle stop --rule time_in_state=7d,state=stopped:delete
  shoal create --rule age=8h:stop --rule deadline@2027-01-31T18:00:00Z:delete
  shoal create --persistent --name notes -e LANG=C.UTF-8 --label team=data
  shoal create --name cache --get-or-create --persistent
  shoal create --from $(shoal checkpoint create lab)
  shoal create --count 20 --name worker- --template base --ttl 30m
  id=$(shoal create) && shoal exec $id -- id`,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := s.request()
			if err == nil {
				r.Env, err = pairs(env, "-e", a.lookup)
			}
			if err == nil {
				r.Labels, err = pairs(labels, "--label", nil)
			}
			if err == nil && req.Name == "" && c.Flags().Changed("name") {
				err = errors.New("--name is empty: say a name, or leave it out")
			}
			r.Name, r.Persistent, r.TTLSeconds, r.FromCheckpoint = req.Name, req.Persistent, ttl.seconds(), req.FromCheckpoint
			if err == nil {
				err = idle.create(&r)
			}
			if err == nil {
				err = rules.create(&r)
			}
			if err == nil {
				err = many.check(r)
			}
			if err != nil {
				return usage(c, "%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if many.count > 0 {
				return creator{a, client}.many(c.Context(), many.count, r)
			}
			sb, err := creator{a, client}.one(c.Context(), r, many.reuse)
			if err != nil {
				return aboutName(c.Context(), client, r.Name, err)
			}
			if a.json() {
				return a.printJSON(sb)
			}
			fmt.Fprintln(a.out, sb.ID)
			return nil
		},
	}
	s.add(a, c)
	many.add(a, c, &req.FromCheckpoint)
	f := c.Flags()
	f.StringVar(&req.Name, "name", "", "a `NAME` of your own, to use instead of the id")
	f.BoolVar(&req.Persistent, "persistent", false, "keep it until it is deleted: no ttl")
	f.Var(&ttl, "ttl", "delete it after this `duration`, such as 30m, 2h or 7d (default: the server's, 1h unless configured)")
	idle.add(c, "delete it, or do --on-idle, when nobody has used it for this `duration`, such as 15m")
	rules.add(c, "a further `RULE` of its lifecycle, such as age=8h:delete; may be repeated")
	f.StringArrayVarP(&env, "env", "e", nil, "environment variable of all its processes, `KEY=VALUE`, or KEY to pass on our own if it is set here; may be repeated")
	f.StringArrayVar(&labels, "label", nil, "label `KEY=VALUE` to find it by; may be repeated")
	return c
}

// defaultTemplate is what a server starts sandboxes from unless it is told otherwise.
const defaultTemplate = "minimal"

// create makes a sandbox. While its template is being built it waits and shows how far that is.
func (a *app) create(ctx context.Context, c *shoal.Client, req shoal.CreateSandboxRequest) (shoal.Sandbox, error) {
	return creator{a, c}.built(ctx, req.Template, func() (shoal.Sandbox, error) { return c.Sandboxes().Create(ctx, req) })
}

// built does what needs a template, and waits while that is being built and shows how far that is.
func (a creator) built(ctx context.Context, template string, do func() (shoal.Sandbox, error)) (shoal.Sandbox, error) {
	p := newProgress(a.err)
	defer p.clear()
	if template == "" {
		template = defaultTemplate
	}
	for {
		sb, err := do()
		var e *shoal.Error
		if !errors.As(err, &e) || e.Code != shoal.CodeUnavailable || e.Field != "template" {
			return sb, err
		}
		if err := awaitTemplate(ctx, a.client, template, p); err != nil {
			return shoal.Sandbox{}, err
		}
	}
}

// awaitTemplate waits until a template is ready and shows how far it is.
func awaitTemplate(ctx context.Context, c *shoal.Client, name string, p *progress) error {
	for {
		t, err := c.Templates().Get(ctx, name)
		if err != nil {
			return err
		}
		switch t.State {
		case api.TemplateStateReady:
			return nil
		case api.TemplateStateFailed:
			return fmt.Errorf("template %s could not be built: %s; the server tries again by itself, 'shoal template ls' shows how it goes", t.Name, t.Failure)
		case api.TemplateStateBuilding:
		}
		p.show("template "+t.Name+" is being made:", strings.TrimSpace(fmt.Sprintf("%d %% %s", t.Percent, t.Progress)))
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *app) lsCommand() *cobra.Command {
	var (
		quiet, deleted, oldest bool
		states, labels         []string
		template               string
		since                  lifetime
	)
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short:      "List sandboxes",
		GroupID:    groupSandbox,
		SuggestFor: []string{"ps"},
		Long: `List sandboxes, newest first unless --oldest is given. Those that have failed or are stopped stay until they are deleted: 'shoal get' says why
one has failed, 'shoal wake' starts one that is stopped. Deleted
ones are shown with -a, for as long as the server remembers them.`,
		Example: `  shoal ls
  shoal ls --label team=data --state running
  shoal ls --template base --since 2h --oldest
  shoal ls -q | xargs -r shoal rm
  shoal ls -o json | jq '.[].id'`,
		RunE: func(c *cobra.Command, _ []string) error {
			want, err := pairs(labels, "--label", nil)
			if err != nil {
				return usage(c, "%v", err)
			}
			o := shoal.ListSandboxesOptions{Labels: want, Deleted: deleted, Template: template, OldestFirst: oldest}
			if since > 0 {
				o.StartedAfter = time.Now().Add(-time.Duration(since))
			}
			for _, s := range states {
				o.States = append(o.States, shoal.SandboxState(s))
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			list := []shoal.Sandbox{}
			for sb, err := range client.Sandboxes().List(c.Context(), o) {
				if err != nil {
					return err
				}
				list = append(list, sb)
			}
			switch {
			case a.json():
				return a.printJSON(list)
			case quiet:
				for _, sb := range list {
					fmt.Fprintln(a.out, sb.ID)
				}
				return nil
			}
			return printSandboxes(a.out, time.Now(), list)
		},
	}
	f := c.Flags()
	f.BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	f.BoolVarP(&deleted, "all", "a", false, "also those that are deleted and not yet forgotten")
	f.StringArrayVar(&states, "state", nil, "only those in this `STATE`, such as running or failed; may be repeated")
	f.StringArrayVar(&labels, "label", nil, "only those with this label, `KEY=VALUE`; may be repeated")
	f.StringVar(&template, "template", "", "only those of this `TEMPLATE`, by its name or the id of one version")
	f.Var(&since, "since", "only those that were started within this `duration`, such as 2h")
	f.BoolVar(&oldest, "oldest", false, "the oldest first")
	_ = c.RegisterFlagCompletionFunc("template", a.complete().templates)
	_ = c.RegisterFlagCompletionFunc("since", cobra.NoFileCompletions)
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(
		[]string{"creating", "running", "stopped", "failed", "deleted"}, // those of this release
		cobra.ShellCompDirectiveNoFileComp))
	return c
}

func printSandboxes(out io.Writer, now time.Time, list []shoal.Sandbox) error {
	t := newTable(out, "ID", "NAME", "TEMPLATE", "STATE", "AGE", "ENDS IN", "VCPUS", "MEMORY")
	for _, sb := range list {
		state := string(sb.State)
		if sb.Operation != "" && sb.State != shoal.StateDeleted { // What is left of a delete is the server's own matter.
			state += " (" + sb.Operation + ")"
		}
		ends := "never"
		switch {
		case sb.State == shoal.StateDeleted:
			ends = "-"
		case !endOf(sb).IsZero():
			ends = age(now, endOf(sb))
		}
		t.row(sb.ID, sb.Name, sb.Template, state, age(now, sb.CreatedAt), ends,
			strconv.FormatFloat(sb.VCPUs, 'g', -1, 64), bytesText(sb.MemoryBytes))
	}
	return t.flush()
}

// sandboxDetails is what get prints with -o json: the API's object, and what it uses if it runs.
type sandboxDetails struct {
	shoal.Sandbox
	Metrics *shoal.SandboxMetrics `json:"metrics,omitempty"`
}

func (a *app) getCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "get SANDBOX",
		Short:      "Show a sandbox and what it uses",
		GroupID:    groupSandbox,
		SuggestFor: []string{"show", "describe", "inspect", "info", "status"},
		Long: `Show all that is known of a sandbox, also why it failed if it did, and, if it runs, what it uses now. With -o json that is
the API's object with its metrics beside it.`,
		Example: `  shoal get lab
  shoal get -o json lab | jq .metrics.memory_bytes`,
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			d := sandboxDetails{}
			if d.Sandbox, err = client.Sandboxes().Get(c.Context(), args[0]); err != nil {
				return aboutSandbox(args[0], err)
			}
			if d.State == api.SandboxStateRunning {
				if d.Metrics, err = metricsIfAny(c.Context(), client, d.ID); err != nil {
					return err
				}
			}
			if a.json() {
				return a.printJSON(d)
			}
			return printSandbox(a.out, d)
		},
	}
}

// metricsWait is how long get waits for what a sandbox uses: one that has cut itself off never says.
const metricsWait = 3 * time.Second

// metricsIfAny returns what a sandbox uses, nil if it can't be learned: what is known of the sandbox is shown all the same.
func metricsIfAny(ctx context.Context, client *shoal.Client, id string) (*shoal.SandboxMetrics, error) {
	limited, cancel := context.WithTimeout(ctx, metricsWait)
	defer cancel()
	m, err := client.Sandboxes().Metrics(limited, id)
	if err == nil {
		return &m, nil
	}
	if ctx.Err() == nil && limited.Err() != nil {
		return nil, nil // The sandbox was silent, as said above.
	}
	switch shoal.ErrorCode(err) { //nolint:exhaustive // The others are errors.
	case shoal.CodeConflict, shoal.CodeUnavailable, shoal.CodeTimeout:
		return nil, nil
	}
	return nil, err
}

func printSandbox(out io.Writer, d sandboxDetails) error {
	t := newTable(out)
	line := func(key, value string) {
		if value != "" {
			t.row(key, value)
		}
	}
	moment := func(m time.Time) string {
		if m.IsZero() {
			return ""
		}
		return m.Local().Format(time.DateTime)
	}
	line("id", d.ID)
	line("name", d.Name)
	line("state", string(d.State))
	if d.State == api.SandboxStateStopped {
		line("since", moment(d.StateSince))
	}
	line("failure", d.Failure)
	line("operation", d.Operation)
	line("template", d.Template+" ("+d.TemplateID+")")
	line("parent", d.Parent)
	line("source", d.Source)
	line("head", d.Head)
	line("created", moment(d.CreatedAt))
	line("started", moment(d.StartedAt))
	line("ends", moment(endOf(d.Sandbox)))
	line("idle", idleText(d.Sandbox))
	line("rules", rulesText(d.Sandbox))
	line("persistent", strconv.FormatBool(d.Persistent))
	line("vcpus", strconv.FormatFloat(d.VCPUs, 'g', -1, 64))
	line("memory", bytesText(d.MemoryBytes))
	for _, l := range otherLimits(d.Sandbox) {
		line(l[0], l[1])
	}
	line("labels", joinPairs(d.Labels))
	line("env", joinPairs(d.Env))
	if m := d.Metrics; m != nil {
		line("memory used", bytesText(m.MemoryBytes))
		line("processor used", fmt.Sprintf("%.2f s", m.CPUSeconds))
		if m.DiskBytes != nil {
			line("disk used", bytesText(*m.DiskBytes))
		}
		if m.Processes > 0 { // Else nobody inside has told.
			line("processes", strconv.Itoa(m.Processes))
		}
	}
	return t.flush()
}

// otherLimits are the limits of a sandbox beside those of processor and memory, as far as it has them, each with its name.
func otherLimits(sb shoal.Sandbox) (list [][2]string) {
	if sb.DiskBytes > 0 {
		list = append(list, [2]string{"disk", bytesText(sb.DiskBytes)})
	}
	for _, l := range []struct {
		name  string
		value int64
	}{{"pids", sb.Pids}, {"open files", sb.OpenFiles}, {"cpu weight", sb.CPUWeight}, {"io weight", sb.IOWeight}} {
		if l.value > 0 {
			list = append(list, [2]string{l.name, strconv.FormatInt(l.value, 10)})
		}
	}
	return list
}

func joinPairs(m map[string]string) string {
	list := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return strings.Join(list, " ")
}

func (a *app) rmCommand() *cobra.Command {
	var force, checkpoints bool
	c := &cobra.Command{
		Use: "rm SANDBOX…", Aliases: []string{"delete"},
		Short:      "Delete sandboxes",
		GroupID:    groupSandbox,
		SuggestFor: []string{"remove", "destroy", "down"},
		Long: `Delete sandboxes with all that is in them, whatever state they are in. There is no way back. The checkpoints that you have made of
them stay, unless --checkpoints is given. If one of several isn't there, the others are deleted all the same and the exit code is 125; with -f
it is 0. With -o json it prints of each what came of it.`,
		Example: `  shoal rm lab
  shoal ls -q --label team=data | xargs -r shoal rm`,
		ValidArgsFunction: a.complete().sandboxes(-1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return each(a, "sandbox", args, func(ref string) error {
				remove := client.Sandboxes().Delete
				if checkpoints {
					remove = client.Sandboxes().DeleteWithCheckpoints
				}
				err := remove(c.Context(), ref)
				if force && isMissing(err) {
					return nil
				}
				return aboutSandbox(ref, err)
			})
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "it is no error if one isn't there")
	c.Flags().BoolVar(&checkpoints, "checkpoints", false, "delete all of their checkpoints too")
	return c
}
