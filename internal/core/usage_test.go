package core_test

import (
	"math/big"
	"testing"
	"time"

	"shoal/internal/core"
)

func TestDay(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-30T23:59:59.999999999Z": "2026-11-30", "2026-11-30T00:00:00Z": "2026-11-30",
		"1969-12-31T23:59:59.5Z": "1969-12-31", "1970-01-01T00:00:00Z": "1970-01-01", "2026-11-30T23:30:00-02:00": "2026-12-01",
	} {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		d := core.DayOf(at)
		if d.String() != want || core.DayOf(d.Start()) != d || at.Before(d.Start()) || !at.Before((d + 1).Start()) {
			t.Errorf("%s is of %s, want %s", text, d, want)
		}
	}
}

func TestByteTimeIsExact(t *testing.T) {
	var sum core.Usage
	want := new(big.Int)
	for i := range int64(1000) {
		bytes, ms := int64(1)<<40+i*77_777, int64(86_400_000)-i
		sum.Add(core.Usage{Memory: core.ByteTime{Large: bytes / core.ByteTimeUnit * ms, Small: bytes % core.ByteTimeUnit * ms}})
		want.Add(want, new(big.Int).Mul(big.NewInt(bytes), big.NewInt(ms)))
	}
	if sum.Memory.Big().Cmp(want) != 0 {
		t.Fatalf("%s, want %s", sum.Memory.Big(), want)
	}
	gib := core.ByteTime{Large: 2 << 30 / core.ByteTimeUnit * 1500}
	if gib.GiBSeconds() != 3 {
		t.Fatalf("2 GiB for 1.5 s are %g GiB-seconds", gib.GiBSeconds())
	}
}
