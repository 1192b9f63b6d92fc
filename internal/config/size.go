package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes.
type Size int64

// The units of a size are binary.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// ParseSize reads a size: a whole number of bytes, or of K, M, G or T, which are powers of 1024 and may also be written
// Ki or KiB. KB is refused: it means 1000 to some and 1024 to others.
func ParseSize(s string) (Size, error) {
	digits := strings.TrimRight(s, "KMGTiB")
	unit := s[len(digits):]
	factor, ok := map[string]Size{
		"": 1, "K": KiB, "Ki": KiB, "KiB": KiB, "M": MiB, "Mi": MiB, "MiB": MiB,
		"G": GiB, "Gi": GiB, "GiB": GiB, "T": TiB, "Ti": TiB, "TiB": TiB,
	}[unit]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/int64(factor) || strings.HasPrefix(digits, "+") {
		return 0, fmt.Errorf("%q is not a size", s)
	}
	return Size(n) * factor, nil
}

// String writes the size in the largest unit that divides it.
func (s Size) String() string {
	switch {
	case s == 0:
		return "0"
	case s%TiB == 0:
		return strconv.FormatInt(int64(s/TiB), 10) + "T"
	case s%GiB == 0:
		return strconv.FormatInt(int64(s/GiB), 10) + "G"
	case s%MiB == 0:
		return strconv.FormatInt(int64(s/MiB), 10) + "M"
	case s%KiB == 0:
		return strconv.FormatInt(int64(s/KiB), 10) + "K"
	}
	return strconv.FormatInt(int64(s), 10)
}

// ParseDuration reads a duration as Go writes them, with days in front if need be: 90s, 1h30m, 7d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration", s)
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, bad
		}
		return d, nil
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(24*time.Hour) || strings.HasPrefix(days, "+") {
		return 0, bad
	}
	total := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > math.MaxInt64-total || strings.HasPrefix(rest, "+") {
		return 0, bad
	}
	return total + d, nil
}

// FormatDuration writes a duration so that ParseDuration reads it, without units that are zero: 24h, not 24h0m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
