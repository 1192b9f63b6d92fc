package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"shoal/internal/core"
)

// Sources are where values come from besides the defaults.
type Sources struct {
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Flags is a parsed set that AddFlags has filled; nil for none. Flags that it doesn't have are passed over.
	Flags *pflag.FlagSet
	// DefaultFile replaces DefaultFile; for tests and packages that put it elsewhere.
	DefaultFile string
}

// Load reads all sources, the later ones winning: defaults, file, environment, flags. The file is what --config names, else
// SHOAL_CONFIG, else the default one if it exists. The error, of code invalid, lists everything that is wrong, a line each.
func Load(src Sources) (*Config, error) { return load(currentSchema(), src) }

func load(s schema, src Sources) (*Config, error) {
	l := loader{schema: s, config: &Config{origin: map[string]origin{}}}
	for _, x := range s.settings {
		l.set(x, x.def, origin{text: "default"})
	}
	if path, named := filePath(src); path != "" {
		l.readFile(path, named)
	}
	l.readEnvironment(src.Environ)
	if src.Flags != nil {
		l.readFlags(src.Flags)
	}
	// Bounds between settings say nothing new while one of the settings could not be read.
	if len(l.problems) == 0 {
		l.problems = l.config.contradictions()
	}
	if len(l.problems) > 0 {
		return nil, core.Errorf(core.CodeInvalid, "%s", strings.Join(l.problems, "\n"))
	}
	return l.config, nil
}

// loader gathers values and everything that is wrong with them.
type loader struct {
	schema
	config   *Config
	problems []string
}

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

func (l *loader) set(s setting, value string, from origin) {
	if err := s.set(l.config, value); err != nil {
		l.problem("%s: %s is %q: allowed is %s", from.text, s.key, s.visible(value), s.allowed)
		return
	}
	l.config.origin[s.key] = from
}

// unknown reports a name that is no setting; similar is the part of the key to compare with.
func (l *loader) unknown(where, what, key string) {
	if i := slices.IndexFunc(l.retired, func(r retiredSetting) bool { return r.key == key }); i >= 0 {
		l.problem("%s: %s is no longer a setting: %s", where, what, l.retired[i].instead)
		return
	}
	if best := l.closest(key); best != "" {
		l.problem("%s: unknown %s: did you mean %s?", where, what, best)
		return
	}
	l.problem("%s: unknown %s", where, what)
}

// closest returns the key with the fewest differing letters, if it is close enough to be meant.
func (l *loader) closest(key string) string {
	best, least := "", 4
	for _, s := range l.settings {
		if d := distance(key, s.key); d < least {
			best, least = s.key, d
		}
	}
	return best
}

// distance counts the letters to insert, remove or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// filePath returns the file to read, and whether somebody named it: a named one must exist.
func filePath(src Sources) (path string, named bool) {
	if src.Flags != nil {
		if f := src.Flags.Lookup("config"); f != nil && f.Changed {
			return f.Value.String(), true
		}
	}
	for _, entry := range src.Environ {
		if v, ok := strings.CutPrefix(entry, "SHOAL_CONFIG="); ok && v != "" {
			return v, true
		}
	}
	path = src.DefaultFile
	if path == "" {
		path = DefaultFile
	}
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return "", false
	}
	return path, false
}
