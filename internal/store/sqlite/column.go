package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"shoal/internal/core"
)

// instant is how a time is kept: unix nanoseconds, NULL for the zero time.
type instant time.Time

// Value makes the column's content. A time that nanoseconds can't tell is refused rather than bent.
func (t instant) Value() (driver.Value, error) {
	at := time.Time(t)
	if at.IsZero() {
		return nil, nil
	}
	if at.Before(time.Unix(0, math.MinInt64)) || at.After(time.Unix(0, math.MaxInt64)) {
		return nil, core.Errorf(core.CodeInvalid, "a time lies between the years 1678 and 2262")
	}
	return at.UnixNano(), nil
}

// nearest is a caller's time as it can be compared with a column's: what nanoseconds can't tell is the end of what they can.
func nearest(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Scan reads the column.
func (t *instant) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*t = instant{}
	case int64:
		*t = instant(time.Unix(0, v).UTC())
	default:
		return fmt.Errorf("a time column holds a %T", v)
	}
	return nil
}

// text keeps maps and lists of strings as JSON, NULL for an empty one.
type text[T any] struct{ v *T }

func jsonOf[T any](v *T) text[T] { return text[T]{v} }

// Value makes the column's content.
func (c text[T]) Value() (driver.Value, error) {
	b, err := json.Marshal(*c.v)
	if err != nil {
		return nil, fmt.Errorf("encode a column: %w", err)
	}
	switch s := string(b); s {
	case "null", "{}", "[]":
		return nil, nil
	default:
		return s, nil
	}
}

// Scan reads the column.
func (c text[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if err := json.Unmarshal([]byte(v), c.v); err != nil {
			return core.Wrap(core.CodeDataLoss, err, "a record in the database is damaged")
		}
		return nil
	default:
		return fmt.Errorf("a JSON column holds a %T", v)
	}
}

// checkText refuses strings that JSON would change silently.
func checkText(field string, m map[string]string, list ...string) error {
	for k, v := range m {
		list = append(list, k, v)
	}
	for _, s := range list {
		if !utf8.ValidString(s) {
			return core.Invalid(field, "%s holds text that is not UTF-8", field)
		}
	}
	return nil
}
