package httpapi

import (
	"net/http"
	"strings"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
)

// getUsage tells what was used.
func (a usageAPI) getUsage(w http.ResponseWriter, r *request) error {
	q, err := r.usageQuery()
	if err != nil {
		return err
	}
	page, err := a.control.Usage(r.Context(), r.principal, q, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.UsageList{
		From: page.From.String(), To: page.To.String(), NextCursor: page.Next,
		Usage: convert(page.Rows, func(u core.UsageRow) api.UsageRow { return encodeUsage(q, u) }),
	})
}

func (r *request) usageQuery() (q control.UsageQuery, err error) {
	if q.From, err = r.day("from"); err != nil {
		return q, err
	}
	if q.To, err = r.day("to"); err != nil {
		return q, err
	}
	if r.query.Has("sandbox") {
		if q.Sandbox = r.query.Get("sandbox"); !refPattern().MatchString(q.Sandbox) {
			return q, core.Errorf(core.CodeNotFound, "no such sandbox")
		}
	}
	for _, by := range r.query["by"] {
		key, labeled := strings.CutPrefix(by, "label:")
		switch {
		case labeled && key == "":
			return q, core.Invalid("by", "say which label: label:KEY")
		case labeled && q.ByLabel != "" && q.ByLabel != key:
			return q, core.Invalid("by", "by takes one label at most")
		case labeled:
			q.ByLabel = key
		case by == "tenant":
			q.ByTenant = true
		case by == "sandbox":
			q.BySandbox = true
		case by == "day":
			q.ByDay = true
		default:
			return q, core.Invalid("by", "by %q is none of tenant, sandbox, day, label:KEY", printable(by))
		}
	}
	return q, nil
}

// day returns a parameter that is a day of UTC; absent is zero.
func (r *request) day(name string) (core.Day, error) {
	text := r.query.Get(name)
	if !r.query.Has(name) {
		return 0, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || at.Year() < 1971 {
		return 0, core.Invalid(name, "%s is a day of UTC such as 2026-11-30", name)
	}
	return core.DayOf(at), nil
}

func encodeUsage(q control.UsageQuery, u core.UsageRow) api.UsageRow {
	out := api.UsageRow{
		Tenant: string(u.Tenant), SandboxID: string(u.Sandbox), Name: u.Name, Template: u.Template, Labels: u.Labels,
		AwakeSeconds: millisSeconds(u.AwakeMillis), VcpuSeconds: float64(u.VCPUMillis) / 1e6, MemoryGibSeconds: u.Memory.GiBSeconds(),
		KeptSeconds: millisSeconds(u.KeptMillis), DiskGibSeconds: u.Disk.GiBSeconds(), DiskMeasuredSeconds: millisSeconds(u.MeasuredMillis),
		Execs: u.Execs, ExecSeconds: millisSeconds(u.ExecMillis), TemplateGibSeconds: u.Templates.GiBSeconds(),
		CheckpointGibSeconds: u.Checkpoints.GiBSeconds(),
	}
	if q.ByLabel != "" {
		out.Label = &u.Label
	}
	if q.ByDay {
		out.Day = u.Day.String()
	}
	return out
}

func millisSeconds(n int64) float64 { return float64(n) / 1000 }
