package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// quotaField is one bound of a quota as it is typed and shown.
type quotaField struct {
	name string
	// set reads a value into the quota; nil takes it out of it. show returns it, and use what is used of it, if that is counted.
	set  func(q *shoal.TenantQuota, text *string) error
	show func(q shoal.TenantQuota) string
	use  func(t shoal.Tenant) string
}

// quotaFields are all bounds, in the order in which they are shown.
func quotaFields() []quotaField {
	return []quotaField{
		countField("sandboxes", func(q *shoal.TenantQuota) **int64 { return &q.Sandboxes }, func(t shoal.Tenant) int64 { return t.Use.Sandboxes }),
		countField("creates-per-minute", func(q *shoal.TenantQuota) **int64 { return &q.CreatesPerMinute }, nil),
		numberField("vcpus", func(q *shoal.TenantQuota) **float64 { return &q.VCPUs }, func(t shoal.Tenant) float64 { return t.Use.VCPUs }),
		sizeField("memory", func(q *shoal.TenantQuota) **int64 { return &q.MemoryBytes }, func(t shoal.Tenant) int64 { return t.Use.MemoryBytes }),
		sizeField("disk", func(q *shoal.TenantQuota) **int64 { return &q.DiskBytes }, func(t shoal.Tenant) int64 { return t.Use.DiskBytes }),
		countField("templates", func(q *shoal.TenantQuota) **int64 { return &q.Templates }, func(t shoal.Tenant) int64 { return t.Use.Templates }),
		sizeField("template-size", func(q *shoal.TenantQuota) **int64 { return &q.TemplateBytes }, func(t shoal.Tenant) int64 { return t.Use.TemplateBytes }),
		countField("checkpoints", func(q *shoal.TenantQuota) **int64 { return &q.Checkpoints }, func(t shoal.Tenant) int64 { return t.Use.Checkpoints }),
		sizeField("checkpoint-size", func(q *shoal.TenantQuota) **int64 { return &q.CheckpointBytes }, func(t shoal.Tenant) int64 { return t.Use.CheckpointBytes }),
		countField("keys", func(q *shoal.TenantQuota) **int64 { return &q.Keys }, func(t shoal.Tenant) int64 { return t.Use.Keys }),
		countField("execs", func(q *shoal.TenantQuota) **int64 { return &q.Execs }, func(t shoal.Tenant) int64 { return t.Use.Execs }),
		numberField("requests-per-second", func(q *shoal.TenantQuota) **float64 { return &q.RequestsPerSecond }, nil),
		countField("calls", func(q *shoal.TenantQuota) **int64 { return &q.Calls }, nil),
		numberField("max-vcpus", func(q *shoal.TenantQuota) **float64 { return &q.MaxVCPUs }, nil),
		sizeField("max-memory", func(q *shoal.TenantQuota) **int64 { return &q.MaxMemoryBytes }, nil),
		sizeField("max-disk", func(q *shoal.TenantQuota) **int64 { return &q.MaxDiskBytes }, nil),
		ttlField("max-ttl", func(q *shoal.TenantQuota) **int64 { return &q.MaxTTLSeconds }),
	}
}

// noLimit is how no limit is typed and shown, serverDefault how what the server has for every tenant is.
const (
	noLimit       = "none"
	serverDefault = "default"
)

func newField[T int64 | float64](
	name string, at func(*shoal.TenantQuota) **T, parse func(string) (T, error), format func(T) string, use func(shoal.Tenant) T,
) quotaField {
	f := quotaField{
		name: name,
		set: func(q *shoal.TenantQuota, text *string) error {
			if text == nil {
				*at(q) = nil
				return nil
			}
			if *text == noLimit {
				*at(q) = new(T)
				return nil
			}
			v, err := parse(*text)
			if err != nil {
				return fmt.Errorf("%s: %w; or none, or default", name, err)
			}
			*at(q) = &v
			return nil
		},
		show: func(q shoal.TenantQuota) string {
			switch v := *at(&q); {
			case v == nil:
				return ""
			case *v == 0:
				return noLimit
			default:
				return format(*v)
			}
		},
	}
	if use != nil {
		f.use = func(t shoal.Tenant) string { return format(use(t)) }
	}
	return f
}

func countField(name string, at func(*shoal.TenantQuota) **int64, use func(shoal.Tenant) int64) quotaField {
	parse := func(s string) (int64, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 1 {
			return 0, errors.New("this is a whole number above 0")
		}
		return n, nil
	}
	return newField(name, at, parse, func(n int64) string { return strconv.FormatInt(n, 10) }, use)
}

func numberField(name string, at func(*shoal.TenantQuota) **float64, use func(shoal.Tenant) float64) quotaField {
	parse := func(s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v > 0) {
			return 0, errors.New("this is a number above 0")
		}
		return v, nil
	}
	return newField(name, at, parse, func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }, use)
}

func sizeField(name string, at func(*shoal.TenantQuota) **int64, use func(shoal.Tenant) int64) quotaField {
	parse := func(s string) (int64, error) {
		var b byteSize
		err := b.Set(s)
		return int64(b), err
	}
	return newField(name, at, parse, bytesText, use)
}

func ttlField(name string, at func(*shoal.TenantQuota) **int64) quotaField {
	parse := func(s string) (int64, error) {
		var l lifetime
		if err := l.Set(s); err != nil {
			return 0, err
		}
		return *l.seconds(), nil
	}
	return newField(name, at, parse, func(n int64) string { return duration(time.Duration(n) * time.Second) }, nil)
}

// setQuota changes a quota by words of the form NAME=VALUE.
func setQuota(q *shoal.TenantQuota, words []string) error {
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		fields := quotaFields()
		i := slices.IndexFunc(fields, func(f quotaField) bool { return f.name == name })
		if !ok || i < 0 {
			return fmt.Errorf("--quota takes NAME=VALUE, not %q, with one of the names %s", w, strings.Join(quotaNames(), ", "))
		}
		text := &value
		if value == serverDefault {
			text = nil
		}
		if err := fields[i].set(q, text); err != nil {
			return fmt.Errorf("--quota %w", err)
		}
	}
	return nil
}

func quotaNames() (names []string) {
	for _, f := range quotaFields() {
		names = append(names, f.name)
	}
	return names
}

// printQuota shows what a tenant may have and has.
func printQuota(out io.Writer, x shoal.Tenant) error {
	t := newTable(out, "QUOTA", "USED", "LIMIT", "SET FOR IT")
	for _, f := range quotaFields() {
		used := ""
		if f.use != nil {
			used = f.use(x)
		}
		limit := f.show(x.Limits)
		if limit == "" {
			limit = "the server's"
		}
		t.row(f.name, used, limit, f.show(x.Quota))
	}
	return t.flush()
}

func quotaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:        "quota",
		Short:      "Show what your tenant may have, and has",
		GroupID:    groupServer,
		SuggestFor: []string{"quotas", "limits"},
		Long: `Show what your tenant may have and what it has. A call that would go beyond is refused with the code quota, and nothing of it is
done; a delete frees what it held at once. Only the server's operator can change a quota, with 'shoal tenant set'.`,
		Example: `  shoal quota
  shoal quota -o json | jq .use.sandboxes`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			own, err := client.Quota(c.Context())
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(own)
			}
			return printQuota(a.out, own)
		},
	}
}
