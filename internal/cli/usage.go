package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// outputCSV is an output format of the commands that are annotated with alsoCSV.
const (
	outputCSV = "csv"
	alsoCSV   = "csv"
)

func usageCommand(a *app) *cobra.Command {
	var (
		o  shoal.UsageOptions
		by []string
	)
	c := &cobra.Command{
		Use:        "usage [SANDBOX]",
		Short:      "Show what was used",
		GroupID:    groupServer,
		SuggestFor: []string{"billing", "cost", "costs"},
		Long: `Show what your sandboxes used in the last 30 days, or what one of them did, up to now. Days are those of UTC.

  AWAKE     how long sandboxes ran
  VCPU      that times their vcpus: what they could use
  MEMORY    that times their memory, in GiB hours
  KEPT      how long their files were there, running or not
  DISK      what they kept beside their template, in GiB hours; "unknown" where the node can't measure it
  EXECS     processes started by calls that have ended, and how long they took

--by tells apart: by sandbox, day, label:KEY or tenant, or several of them. With -o csv and -o json the figures are in seconds, exactly.`,
		Example: `  shoal usage
  shoal usage --by sandbox --from 2026-11-01 --to 2026-11-30
  shoal usage --by label:team,day -o csv
  shoal usage lab --by day`,
		Annotations:       map[string]string{alsoCSV: "true"},
		ValidArgsFunction: a.complete().sandboxes(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				o.Sandbox = args[0]
			}
			if o.By = by; len(by) == 0 && len(args) == 0 && a.output == outputTable {
				o.By = []string{"sandbox"}
			}
			list := []shoal.UsageRow{}
			for u, err := range client.Usage().List(c.Context(), o) {
				if err != nil && len(args) > 0 {
					return aboutSandbox(args[0], err)
				}
				if err != nil {
					return err
				}
				list = append(list, u)
			}
			switch {
			case a.output == outputCSV:
				return usageCSV(a.out, o.By, list)
			case a.json():
				return a.printJSON(list)
			}
			return printUsed(a.out, o.By, list)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&by, "by", nil, "what to tell apart: `KEYS` of sandbox, day, label:KEY and tenant (default: sandbox in a table, else nothing)")
	f.StringVar(&o.From, "from", "", "the first `DAY`, such as 2026-11-01 (default: 29 days before the last)")
	f.StringVar(&o.To, "to", "", "the last `DAY` (default: today)")
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"sandbox", "day", "tenant", "label:"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	return c
}

// usageKeys are the columns that say whose usage a row is.
func usageKeys(by []string, u shoal.UsageRow) (names, values []string) {
	add := func(name, value string) { names, values = append(names, name), append(values, value) }
	for _, k := range []string{"tenant", "sandbox", "label", "day"} {
		for _, b := range by {
			switch {
			case k == "label" && strings.HasPrefix(b, "label:"):
				value := ""
				if u.Label != nil {
					value = *u.Label
				}
				add(strings.TrimPrefix(b, "label:"), value)
			case k != b:
			case k == "tenant":
				add("tenant", u.Tenant)
			case k == "sandbox":
				add("sandbox", u.SandboxID)
				add("name", u.Name)
			case k == "day":
				add("day", u.Day)
			}
		}
	}
	return names, values
}

func printUsed(out io.Writer, by []string, list []shoal.UsageRow) error {
	names, _ := usageKeys(by, shoal.UsageRow{})
	keys := len(names)
	for i, n := range names {
		names[i] = strings.ToUpper(n)
	}
	t := newTable(out, append(names, "AWAKE", "VCPU", "MEMORY", "KEPT", "DISK", "EXECS", "TEMPLATES", "CHECKPOINTS")...)
	var sum shoal.UsageRow
	for _, u := range list {
		_, values := usageKeys(by, u)
		t.row(append(values, usageCells(u)...)...)
		addUsage(&sum, u)
	}
	if keys > 0 && len(list) != 1 {
		total := append([]string{"total"}, make([]string, keys-1)...)
		t.row(append(total, usageCells(sum)...)...)
	}
	return t.flush()
}

func addUsage(sum *shoal.UsageRow, u shoal.UsageRow) {
	sum.AwakeSeconds += u.AwakeSeconds
	sum.VcpuSeconds += u.VcpuSeconds
	sum.MemoryGibSeconds += u.MemoryGibSeconds
	sum.KeptSeconds += u.KeptSeconds
	sum.DiskGibSeconds += u.DiskGibSeconds
	sum.DiskMeasuredSeconds += u.DiskMeasuredSeconds
	sum.Execs += u.Execs
	sum.ExecSeconds += u.ExecSeconds
	sum.TemplateGibSeconds += u.TemplateGibSeconds
	sum.CheckpointGibSeconds += u.CheckpointGibSeconds
}

// usageCells are the figures as a person reads them.
func usageCells(u shoal.UsageRow) []string {
	disk := gibHours(u.DiskGibSeconds)
	switch {
	case u.KeptSeconds > 0 && u.DiskMeasuredSeconds == 0:
		disk = "unknown"
	case u.DiskMeasuredSeconds < u.KeptSeconds-1:
		disk += " (" + strconv.Itoa(int(100*u.DiskMeasuredSeconds/u.KeptSeconds)) + " % known)"
	}
	return []string{
		seconds(u.AwakeSeconds), seconds(u.VcpuSeconds), gibHours(u.MemoryGibSeconds), seconds(u.KeptSeconds), disk,
		fmt.Sprintf("%d, %s", u.Execs, seconds(u.ExecSeconds)), gibHours(u.TemplateGibSeconds), gibHours(u.CheckpointGibSeconds),
	}
}

// seconds says a time that may be longer than a Duration holds.
func seconds(s float64) string {
	const day = 24 * 60 * 60
	if s >= 100*365*day {
		return fmt.Sprintf("%.0f d", s/day)
	}
	return duration(time.Duration(s * float64(time.Second)))
}

func gibHours(s float64) string {
	switch h := s / 3600; {
	case h == 0:
		return "0 GiB h"
	case h < 0.01:
		return "< 0.01 GiB h"
	case h < 10:
		return fmt.Sprintf("%.2f GiB h", h)
	default:
		return fmt.Sprintf("%.0f GiB h", h)
	}
}

func usageCSV(out io.Writer, by []string, list []shoal.UsageRow) error {
	w := csv.NewWriter(out)
	names, _ := usageKeys(by, shoal.UsageRow{})
	_ = w.Write(append(names, "awake_seconds", "vcpu_seconds", "memory_gib_seconds", "kept_seconds", "disk_gib_seconds",
		"disk_measured_seconds", "execs", "exec_seconds", "egress_bytes", "template_gib_seconds", "checkpoint_gib_seconds"))
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	for _, u := range list {
		_, values := usageKeys(by, u)
		_ = w.Write(append(values, number(u.AwakeSeconds), number(u.VcpuSeconds), number(u.MemoryGibSeconds), number(u.KeptSeconds),
			number(u.DiskGibSeconds), number(u.DiskMeasuredSeconds), strconv.FormatInt(u.Execs, 10), number(u.ExecSeconds),
			strconv.FormatInt(u.EgressBytes, 10), number(u.TemplateGibSeconds), number(u.CheckpointGibSeconds)))
	}
	w.Flush()
	return w.Error()
}
