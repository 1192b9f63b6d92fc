package core

import (
	"math"
	"math/big"
	"time"
)

// Day is a day of UTC, counted from 1970-01-01.
type Day int64

// DayOf returns the day of a moment.
func DayOf(t time.Time) Day {
	const seconds = 24 * 60 * 60
	s := t.Unix()
	if s < 0 {
		s -= seconds - 1
	}
	return Day(s / seconds)
}

// Start is the moment at which the day begins.
func (d Day) Start() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// String writes the day as 2026-11-30.
func (d Day) String() string { return d.Start().Format(time.DateOnly) }

// Meter is what counts for a sandbox from a moment on, and to whom.
type Meter struct {
	Sandbox SandboxID
	Tenant  TenantID
	// Name, Template and Labels are what the sandbox has now, or had last: usage is shown with them.
	Name, Template string
	Labels         map[string]string
	// Since is from when on the rates hold. Usage is counted in whole milliseconds.
	Since time.Time
	// Clocks say what runs, Resources at what rate. DiskBytes of them is not used here.
	Clocks    Clocks
	Resources Resources
	// KeptBytes is what it keeps of its own on the disk; -1 if nobody can tell.
	KeptBytes int64
	// Ended says that nothing will be counted any more.
	Ended bool
}

// MeterOf returns the meter of a sandbox as it is from a moment on.
func MeterOf(sb Sandbox, since time.Time) Meter {
	return Meter{
		Sandbox: sb.ID, Tenant: sb.Tenant, Name: sb.Name, Template: sb.TemplateName, Labels: sb.Labels, Since: since,
		Clocks: ClocksOf(sb.State), Resources: sb.Resources, KeptBytes: -1, Ended: sb.State == StateDeleted,
	}
}

// MilliVCPUs is the rate at which vcpus count: thousandths of one, to the nearest.
func (m Meter) MilliVCPUs() int64 { return int64(math.Round(m.Resources.VCPUs * 1000)) }

// Usage is what was used. All of it is whole numbers: parts add up to their sum exactly.
type Usage struct {
	// AwakeMillis is the time for which processes could run, KeptMillis that for which files were kept.
	AwakeMillis, KeptMillis int64
	// VCPUMillis is thousandths of a vcpu × milliseconds.
	VCPUMillis int64
	// Memory and Disk are bytes × milliseconds. Disk is known for MeasuredMillis of KeptMillis only.
	Memory, Disk   ByteTime
	MeasuredMillis int64
	// Execs is how many processes ended, and ExecMillis the time that they took.
	Execs, ExecMillis int64
	// Templates is the bytes of a tenant's own templates × milliseconds, for no sandbox.
	Templates ByteTime
	// Checkpoints is the bytes that a tenant's checkpoints keep beside its sandboxes × milliseconds, for no sandbox.
	Checkpoints ByteTime
}

// Add adds what was used elsewhere.
func (u *Usage) Add(o Usage) {
	u.AwakeMillis += o.AwakeMillis
	u.KeptMillis += o.KeptMillis
	u.VCPUMillis += o.VCPUMillis
	u.Memory.add(o.Memory)
	u.Disk.add(o.Disk)
	u.MeasuredMillis += o.MeasuredMillis
	u.Execs += o.Execs
	u.ExecMillis += o.ExecMillis
	u.Templates.add(o.Templates)
	u.Checkpoints.add(o.Checkpoints)
}

// ByteTimeUnit is the weight of ByteTime.Large.
const ByteTimeUnit = 1 << 16

// ByteTime is bytes × milliseconds, Large × ByteTimeUnit + Small: a terabyte for a year is more than 64 bits hold.
type ByteTime struct{ Large, Small int64 }

func (b *ByteTime) add(o ByteTime) {
	b.Large += o.Large
	b.Small += o.Small
}

// Big returns the whole number.
func (b ByteTime) Big() *big.Int {
	n := new(big.Int).Mul(big.NewInt(b.Large), big.NewInt(ByteTimeUnit))
	return n.Add(n, big.NewInt(b.Small))
}

// GiBSeconds returns it in 2³⁰ bytes × seconds.
func (b ByteTime) GiBSeconds() float64 {
	return (float64(b.Large)*ByteTimeUnit + float64(b.Small)) / (1 << 30) / 1000
}

// UsageRow is what was used by those who have something in common. What the question didn't ask to be told apart is empty.
type UsageRow struct {
	Tenant  TenantID
	Sandbox SandboxID
	// Name, Template and Labels describe Sandbox.
	Name, Template string
	Labels         map[string]string
	// Label is the value of the label that was asked for; empty for those that don't have it.
	Label string
	Day   Day
	Usage
}
