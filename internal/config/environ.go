package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// notSettings are the SHOAL_* variables that mean something else than a setting of the server: where the command line
// finds it, which file this is, and what tests use.
func notSettings() []string {
	return []string{"SHOAL_URL", "SHOAL_API_KEY", "SHOAL_CA_FILE", "SHOAL_TENANT", "SHOAL_CONFIG", "SHOAL_FAILPOINTS", "SHOAL_REQUIRE_ROOT"}
}

func (l *loader) readEnvironment(environ []string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "SHOAL_") || slices.Contains(notSettings(), name) {
			continue
		}
		i := slices.IndexFunc(l.settings, func(s setting) bool { return s.variable() == name })
		if i < 0 {
			l.unknownVariable(name)
			continue
		}
		l.set(l.settings[i], value, origin{text: name, set: true})
	}
}

func (l *loader) unknownVariable(name string) {
	for _, r := range l.retired {
		if (setting{key: r.key}).variable() == name {
			l.unknown("environment", name, r.key)
			return
		}
	}
	best, least := "", 4
	for _, s := range l.settings {
		if d := distance(name, s.variable()); d < least {
			best, least = s.variable(), d
		}
	}
	if best != "" {
		l.problem("environment: unknown variable %s: did you mean %s?", name, best)
		return
	}
	l.problem("environment: unknown variable %s", name)
}

// flagValue keeps a flag's text until Load reads it with the same rules as a file's.
type flagValue struct{ text, kind string }

// String returns the text, at first the default, which help shows.
func (v *flagValue) String() string { return v.text }

// Set keeps the text.
func (v *flagValue) Set(s string) error {
	v.text = s
	return nil
}

// Type names the kind of value, which help shows.
func (v *flagValue) Type() string { return v.kind }

// AddFlags adds a flag for each setting, and --config, to a set. Give the set to Load once it has been parsed.
func AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration file (default "+DefaultFile+" if it exists)")
	for _, s := range currentSchema().settings {
		flags.Var(&flagValue{text: s.def, kind: s.kind}, s.flag(), firstSentence(s.doc))
	}
}

func (l *loader) readFlags(flags *pflag.FlagSet) {
	for _, s := range l.settings {
		if f := flags.Lookup(s.flag()); f != nil && f.Changed {
			l.set(s, typed(s, f.Value.String()), origin{text: "--" + s.flag(), set: true})
		}
	}
}

// typed is a flag's value as it was meant: who types a path names it from where they are. Files and variables have no such place.
func typed(s setting, value string) string {
	if !s.path || value == "" {
		return value
	}
	if abs, err := filepath.Abs(value); err == nil {
		return abs
	}
	return value
}

// firstSentence makes a flag's one line of help, without capital, unless it is that of an abbreviation, and full stop.
func firstSentence(doc string) string {
	first, _, _ := strings.Cut(doc, ". ")
	first = strings.TrimSuffix(first, ".")
	if len(first) > 1 && first[1] >= 'A' && first[1] <= 'Z' {
		return first
	}
	return strings.ToLower(first[:1]) + first[1:]
}
