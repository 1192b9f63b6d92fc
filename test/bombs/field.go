package bombs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	shoal "shoal/sdk/go"
)

// Field is a server with a neighbour that should notice nothing.
type Field struct {
	Client    *shoal.Client
	Neighbour string
}

// Spread is what a number of calls took, in milliseconds.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
}

// Figures are what a neighbour sees: the start and end of a process, a look at a file, and how long a new sandbox takes.
type Figures struct {
	Exec   Spread `json:"exec_ms"`
	Stat   Spread `json:"stat_ms"`
	Create Spread `json:"create_ms"`
}

// Outcome is what became of a bomb.
type Outcome struct {
	Bomb    string  `json:"bomb"`
	What    string  `json:"what"`
	Figures Figures `json:"neighbour"`
	// Inside is what a call of /bin/true in the first bombed sandbox came to meanwhile: "answered", or an error's code.
	Inside   string  `json:"inside"`
	InsideMS float64 `json:"inside_ms"`
	// Ends are how the bombs ended: by themselves, or canceled; CancelMS is what the slowest cancel took.
	Ends     []string `json:"ends"`
	CancelMS float64  `json:"cancel_ms"`
	// After are the sandboxes' states afterwards, with the reason where it is failed; DeleteMS what the slowest delete took.
	After    []string `json:"after"`
	DeleteMS float64  `json:"delete_ms"`
}

// insideLimit is how long a bombed sandbox may take to answer, before it is said that it did not.
const insideLimit = 10 * time.Second

// Measure makes calls in turns until d has passed, at least three of each. Any call that fails is an error.
func (f Field) Measure(ctx context.Context, d time.Duration) (Figures, error) {
	var exec, stat, create []time.Duration
	timed := func(list *[]time.Duration, act func() error) error {
		begun := time.Now()
		err := act()
		*list = append(*list, time.Since(begun))
		return err
	}
	run := func() error {
		res, err := f.Client.Execs(f.Neighbour).Run(ctx, shoal.ExecRequest{Cmd: []string{"/bin/true"}})
		if err == nil && (res.ExitCode == nil || *res.ExitCode != 0) {
			err = fmt.Errorf("/bin/true in the neighbour: %s", res.Outcome)
		}
		return err
	}
	look := func() error {
		_, err := f.Client.Files(f.Neighbour).Stat(ctx, "/etc/passwd")
		return err
	}
	var made string
	makeNew := func() (err error) {
		sb, err := f.Client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
		made = sb.ID
		return err
	}
	for end := time.Now().Add(d); time.Now().Before(end) || len(create) < 3; {
		for range 3 {
			if err := errors.Join(timed(&exec, run), timed(&stat, look)); err != nil {
				return Figures{}, err
			}
		}
		if err := timed(&create, makeNew); err != nil {
			return Figures{}, fmt.Errorf("create beside it: %w", err)
		}
		if err := f.Client.Sandboxes().Delete(ctx, made); err != nil {
			return Figures{}, fmt.Errorf("delete beside it: %w", err)
		}
	}
	return Figures{spread(exec), spread(stat), spread(create)}, nil
}

func spread(list []time.Duration) Spread {
	slices.Sort(list)
	ms := func(p float64) float64 {
		return float64(list[max(0, int(math.Ceil(p*float64(len(list))))-1)].Microseconds()) / 1000
	}
	return Spread{N: len(list), P50: ms(.5), P95: ms(.95), Max: ms(1)}
}

// Try sets a bomb off and measures what the neighbour sees of it. Its sandboxes are deleted, whatever became of them.
func (f Field) Try(ctx context.Context, b Bomb, d time.Duration) (out Outcome, err error) {
	out = Outcome{Bomb: b.Name, What: b.What}
	var ids []string
	defer func() {
		for _, id := range ids {
			begun := time.Now()
			err = errors.Join(err, f.Client.Sandboxes().Delete(context.WithoutCancel(ctx), id))
			out.DeleteMS = max(out.DeleteMS, float64(time.Since(begun).Microseconds())/1000)
		}
	}()
	var execs []string
	for range b.Sandboxes {
		sb, err := f.Client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
		if err != nil {
			return out, err
		}
		ids = append(ids, sb.ID)
		s, err := f.Client.Execs(sb.ID).Stream(ctx, b.exec()) // and nobody reads it
		if err != nil {
			return out, err
		}
		defer func() { _ = s.Close() }()
		first, err := s.Recv()
		if err != nil {
			return out, err
		}
		execs = append(execs, first.Exec.ID)
	}
	if out.Figures, err = f.Measure(ctx, d); err != nil {
		return out, err
	}
	out.Inside, out.InsideMS = f.inside(ctx, ids[0])
	for i, id := range ids {
		begun := time.Now()
		end, err := f.end(ctx, id, execs[i])
		if err != nil {
			return out, err
		}
		out.Ends, out.CancelMS = append(out.Ends, end), max(out.CancelMS, float64(time.Since(begun).Microseconds())/1000)
		state, err := f.after(ctx, id)
		if err != nil {
			return out, err
		}
		out.After = append(out.After, state)
	}
	return out, nil
}

// inside says what a call in a bombed sandbox comes to.
func (f Field) inside(ctx context.Context, id string) (string, float64) {
	ctx, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	begun := time.Now()
	_, err := f.Client.Execs(id).Run(ctx, shoal.ExecRequest{Cmd: []string{"/bin/true"}})
	ms := float64(time.Since(begun).Microseconds()) / 1000
	switch {
	case err == nil:
		return "answered", ms
	case ctx.Err() != nil:
		return "no answer", ms
	}
	return string(shoal.ErrorCode(err)), ms
}

// end cancels a bomb that goes on, and says how it ended.
func (f Field) end(ctx context.Context, sandbox, id string) (string, error) {
	execs := f.Client.Execs(sandbox)
	x, err := execs.Get(ctx, id)
	if err == nil && x.Running {
		if err = execs.Cancel(ctx, id); err == nil || shoal.ErrorCode(err) == "unavailable" || shoal.ErrorCode(err) == "conflict" {
			x, err = execs.Get(ctx, id)
		}
	}
	if err != nil {
		return "", fmt.Errorf("end a bomb: %w", err)
	}
	if x.OutOfMemory {
		return string(x.Outcome) + ", out of memory", nil
	}
	return string(x.Outcome), nil
}

// after says what state a bombed sandbox is in when it is of use again or has failed.
func (f Field) after(ctx context.Context, id string) (string, error) {
	for {
		sb, err := f.Client.Sandboxes().Get(ctx, id)
		if err != nil {
			return "", err
		}
		if sb.State != shoal.StateRunning {
			return string(sb.State) + ": " + sb.Failure, nil
		}
		if said, _ := f.inside(ctx, id); said == "answered" {
			return string(sb.State), nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("a bombed sandbox neither answers nor has failed: %w", ctx.Err())
		}
	}
}

// Table prints what was measured: quiet first, then each bomb.
func Table(w io.Writer, quiet Figures, list []Outcome) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "neighbour, ms\texec p50\tp95\tstat p50\tp95\tcreate p50\tp95\tinside\tcancel\tdelete\tends\tafter\t")
	row := func(name string, f Figures, rest string) {
		fmt.Fprintf(tw, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%s\t\n",
			name, f.Exec.P50, f.Exec.P95, f.Stat.P50, f.Stat.P95, f.Create.P50, f.Create.P95, rest)
	}
	row("quiet", quiet, "\t\t\t\t")
	for _, o := range list {
		row(o.Bomb, o.Figures, fmt.Sprintf("%s %.0f\t%.0f\t%.0f\t%s\t%s", o.Inside, o.InsideMS, o.CancelMS, o.DeleteMS, o.Ends[0], o.After[0]))
	}
	_ = tw.Flush()
}
