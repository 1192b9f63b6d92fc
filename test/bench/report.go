package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"shoal/test/bombs"
)

// series is one measurement's runs.
type series struct {
	Name string `json:"name"`
	// Unit is ms, MiB or percent.
	Unit   string    `json:"unit"`
	N      int       `json:"n"`
	P50    float64   `json:"p50"`
	P95    float64   `json:"p95"`
	P99    float64   `json:"p99"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	values []float64 // in the order of the runs
}

func (s *series) add(v float64)         { s.values = append(s.values, v) }
func (s *series) took(d time.Duration)  { s.add(float64(d.Microseconds()) / 1000) }
func (s *series) since(start time.Time) { s.took(time.Since(start)) }

// finish computes the figures: nearest-rank percentiles.
func (s *series) finish() {
	v := slices.Sorted(slices.Values(s.values))
	s.N = len(v)
	if s.N == 0 {
		return
	}
	rank := func(p float64) float64 { return v[max(0, int(math.Ceil(p*float64(len(v))))-1)] }
	s.P50, s.P95, s.P99, s.Min, s.Max = rank(.50), rank(.95), rank(.99), v[0], v[len(v)-1]
}

// goal is a promise about two medians or about one figure.
type goal struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	Holds bool    `json:"holds"`
}

type machine struct {
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory_bytes"`
	Go     string `json:"go"`
}

type report struct {
	At      time.Time `json:"at"`
	Commit  string    `json:"commit"`
	Machine machine   `json:"machine"`
	Series  []*series `json:"series"`
	Goals   []goal    `json:"goals"`
	// Neighbours is there if it was asked for.
	Neighbours *neighbours `json:"neighbours,omitempty"`
}

func newReport(o options) *report {
	return &report{At: time.Now().UTC(), Commit: o.commit, Machine: thisMachine()}
}

// series returns a series by name, a new one if there is none yet.
func (r *report) series(name, unit string) *series {
	if s := r.find(name); s != nil {
		return s
	}
	s := &series{Name: name, Unit: unit}
	r.Series = append(r.Series, s)
	return s
}

func (r *report) find(name string) *series {
	for _, s := range r.Series {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (r *report) goal(name string, value, limit float64, unit string) {
	r.Goals = append(r.Goals, goal{name, value, limit, unit, value <= limit})
}

func thisMachine() machine {
	var u unix.Utsname
	_ = unix.Uname(&u)
	var info unix.Sysinfo_t
	_ = unix.Sysinfo(&info)
	m := machine{
		Kernel: unix.ByteSliceToString(u.Release[:]), Cores: runtime.NumCPU(), Go: runtime.Version(),
		Memory: int64(info.Totalram) * int64(info.Unit),
	}
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(data), "\n") {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			m.CPU = strings.Trim(name, "\t: ")
			break
		}
	}
	return m
}

// table prints the report for people.
func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "commit %s · %s · %d × %s · Linux %s\n\n", r.Commit, r.Machine.Go, r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "measurement\tunit\tn\tp50\tp95\tp99\tmin\tmax\t")
	for _, s := range r.Series {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", s.Name, s.Unit, s.N, s.P50, s.P95, s.P99, s.Min, s.Max)
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
	if r.Neighbours != nil {
		bombs.Table(w, r.Neighbours.Quiet, r.Neighbours.Bombs)
		fmt.Fprintln(w)
	}
	for _, g := range r.Goals {
		mark := "holds"
		if !g.Holds {
			mark = "MISSED"
		}
		fmt.Fprintf(w, "%-6s  %s: %.2f %s (at most %.2f)\n", mark, g.Name, g.Value, g.Unit, g.Limit)
	}
}

func (r *report) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
