package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// byteSize is a flag such as 512M. Units are powers of 1024.
type byteSize int64

// String returns the value as it is typed.
func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return strings.NewReplacer(" ", "", "iB", "").Replace(bytesText(int64(*b)))
}

// Type names the value in the help.
func (b *byteSize) Type() string { return "size" }

// bytes is what the API takes; nil if the flag wasn't given.
func (b *byteSize) bytes() *int64 {
	if *b == 0 {
		return nil
	}
	return new(int64(*b))
}

// Set reads a number with an optional unit K, M, G or T.
func (b *byteSize) Set(s string) error {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s), "B"), "I")
	shift := 0
	if i := strings.IndexAny(number, "KMGT"); i >= 0 && i == len(number)-1 {
		shift = 10 * (1 + strings.IndexByte("KMGT", number[i]))
		number = number[:i]
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) || v*float64(int64(1)<<shift) >= math.MaxInt64 {
		return errors.New("a size is a number above 0 and a unit, such as 512M or 4G")
	}
	if strings.Trim(s, "0123456789.") == "" && v < 1<<20 {
		unit := "bytes"
		if v == 1 {
			unit = "byte"
		}
		return fmt.Errorf("that is %s %s: did you mean %sM?", s, unit, s)
	}
	*b = byteSize(v * float64(int64(1)<<shift))
	return nil
}

// diskLimit is a size that people try to switch off with 0, which is the operator's to say.
type diskLimit struct{ byteSize }

// Set reads a size and says what 0 would need.
func (d *diskLimit) Set(s string) error {
	if n, err := strconv.ParseFloat(strings.TrimRight(strings.ToUpper(s), "KMGTIB"), 64); err == nil && n == 0 {
		return errors.New("a limit is at least 16M. Without --disk the server's default holds; only there, in its setting sandbox.disk, " +
			"0 means no limit")
	}
	return d.byteSize.Set(s)
}

// lifetime is a flag such as 30m, 2h or 7d.
type lifetime time.Duration

// String returns the value as it is typed.
func (l *lifetime) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Type names the value in the help.
func (l *lifetime) Type() string { return "duration" }

// seconds is what the API takes, at least one; nil if the flag wasn't given.
func (l *lifetime) seconds() *int64 {
	if *l == 0 {
		return nil
	}
	return new(max(1, int64(time.Duration(*l).Seconds())))
}

// Set reads a duration; d stands for 24 hours.
func (l *lifetime) Set(s string) error {
	scale := int64(1)
	text := s
	if days, ok := strings.CutSuffix(s, "d"); ok {
		text, scale = days+"h", 24
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || int64(d) > math.MaxInt64/scale {
		return errors.New("a duration is a number above 0 and a unit, such as 90s, 30m, 2h or 7d")
	}
	*l = lifetime(int64(d) * scale)
	return nil
}

// pairs reads flags of the form K=V. With env, a K alone takes its value from the caller's environment, and is left out if it
// has none there. A name may be what the kernel takes for one: anything but nothing, as other programs have it.
func pairs(list []string, flag string, env func(string) (string, bool)) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(list))
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		if k == "" || !ok && env == nil {
			return nil, fmt.Errorf("%s takes KEY=VALUE, not %q", flag, s)
		}
		if !ok {
			if v, ok = env(k); !ok {
				continue
			}
		}
		m[k] = v
	}
	return m, nil
}

// moment is a flag such as 1h, which is so long ago, or 2026-11-30T12:00:00Z.
type moment struct {
	at   time.Time
	text string
	// ago says that it was typed as how long ago it was.
	ago bool
}

// String returns the value as it is typed.
func (m *moment) String() string { return m.text }

// Type names the value in the help.
func (m *moment) Type() string { return "moment" }

// Set reads a moment.
func (m *moment) Set(s string) error {
	var ago lifetime
	if ago.Set(s) == nil {
		m.at, m.text, m.ago = time.Now().Add(-time.Duration(ago)), s, true
		return nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			if at.IsZero() {
				at = at.Add(1) // zero would be none
			}
			m.at, m.text, m.ago = at, s, false
			return nil
		}
	}
	return errors.New("a moment is how long ago it was, such as 90s, 2h or 7d, or a time such as 2026-11-30T12:00:00Z")
}
