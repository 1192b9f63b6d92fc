package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// binding ties a setting to its field: how text becomes the field's value and back.
type binding struct {
	// kind is the value's type in a word, for flags and the reference.
	kind string
	set  func(c *Config, text string) error
	get  func(c *Config) string
}

// errNotAllowed says that a value can be read and is out of bounds. The message of the setting says what is allowed.
var errNotAllowed = errors.New("not allowed")

func bind[T any](
	kind string, field func(*Config) *T, parse func(string) (T, error), format func(T) string, ok func(T) bool,
) binding {
	return binding{
		kind: kind,
		set: func(c *Config, text string) error {
			v, err := parse(text)
			if err != nil {
				return err
			}
			if !ok(v) {
				return errNotAllowed
			}
			*field(c) = v
			return nil
		},
		get: func(c *Config) string { return format(*field(c)) },
	}
}

func text(field func(*Config) *string, ok func(string) bool) binding {
	same := func(s string) string { return s }
	return bind("string", field, func(s string) (string, error) { return s, nil }, same, ok)
}

func whole(field func(*Config) *int, least, most int) binding {
	return bind("int", field, strconv.Atoi, strconv.Itoa, func(v int) bool { return v >= least && v <= most })
}

func fraction(field func(*Config) *float64, ok func(float64) bool) binding {
	parse := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
	format := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return bind("number", field, parse, format, func(v float64) bool {
		return !math.IsNaN(v) && !math.IsInf(v, 0) && ok(v)
	})
}

func size(field func(*Config) *Size, ok func(Size) bool) binding {
	return bind("size", field, ParseSize, Size.String, ok)
}

func duration(field func(*Config) *time.Duration, least time.Duration) binding {
	return bind("duration", field, ParseDuration, FormatDuration, func(v time.Duration) bool { return v >= least })
}

// list is a list of words, which a file writes as a YAML list and a variable or flag with commas.
func list(field func(*Config) *[]string, ok func(string) bool) binding {
	parse := func(s string) ([]string, error) {
		if s == "" {
			return nil, nil
		}
		words := strings.Split(s, ",")
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		return words, nil
	}
	format := func(v []string) string { return strings.Join(v, ",") }
	return bind("list", field, parse, format, func(v []string) bool {
		seen := map[string]bool{}
		for _, word := range v {
			if !ok(word) || seen[word] {
				return false
			}
			seen[word] = true
		}
		return true
	})
}
