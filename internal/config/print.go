package config

import (
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes the effective configuration as a file that Load would read, each value with where it came from. Passwords
// are hidden.
func (c *Config) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "version: %s\n", fileVersion)
	section := ""
	for _, s := range currentSchema().settings {
		name, indent := s.key, ""
		if head, tail, ok := strings.Cut(s.key, "."); ok {
			if head != section {
				fmt.Fprintf(&b, "%s:\n", head)
			}
			section, name, indent = head, tail, "  "
		}
		value, err := scalar(s, s.visible(s.get(c)))
		if err != nil {
			return fmt.Errorf("print %s: %w", s.key, err)
		}
		line := fmt.Sprintf("%s%s: %s", indent, name, value)
		fmt.Fprintf(&b, "%-44s # %s\n", line, c.Origin(s.key))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return nil
}

// scalar writes one value in YAML, quoted where it must be.
func scalar(s setting, value string) (string, error) {
	if s.kind == "list" {
		return "[" + strings.ReplaceAll(value, ",", ", ") + "]", nil
	}
	if s.kind != "string" {
		return value, nil
	}
	out, err := yaml.Marshal(value)
	return strings.TrimSpace(string(out)), err
}
