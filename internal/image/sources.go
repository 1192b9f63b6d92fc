package image

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// source is one repository of apt: one URI and one suite.
type source struct {
	URI        string
	Suite      string
	Components []string
	// SignedBy is the keyring that the host trusts for it, or empty.
	SignedBy string
}

// parseSources reads a *.sources (deb822) or *.list file by its content. Entries that are disabled, for source packages,
// or not for arch are left out, and so is what can't be read: apt itself has complained about it long ago.
func parseSources(name string, data []byte, arch string) []source {
	if strings.HasSuffix(name, ".sources") {
		return parseDeb822(data, arch)
	}
	return parseList(data, arch)
}

// parseList reads the one-line format: "deb [option=value …] uri suite component…" on each line.
func parseList(data []byte, arch string) []source {
	var out []source
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for scanner.Scan() {
		line, _, _ := strings.Cut(scanner.Text(), "#")
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, "deb")
		if !ok || rest == "" || !strings.ContainsAny(rest[:1], " \t") {
			continue
		}
		rest = strings.TrimSpace(rest)
		options := map[string]string{}
		if strings.HasPrefix(rest, "[") {
			text, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				continue
			}
			for _, option := range strings.Fields(text) {
				key, value, _ := strings.Cut(option, "=")
				options[key] = value
			}
			rest = after
		}
		fields := strings.Fields(rest)
		if len(fields) < 3 || !forArch(strings.Split(options["arch"], ","), arch) {
			continue
		}
		out = append(out, source{URI: fields[0], Suite: fields[1], Components: fields[2:], SignedBy: options["signed-by"]})
	}
	return out
}

// parseDeb822 reads stanzas of "Field: value" lines.
func parseDeb822(data []byte, arch string) []source {
	var out []source
	for _, stanza := range parseStanzas(data) {
		if !slices.Contains(strings.Fields(stanza["types"]), "deb") || strings.EqualFold(stanza["enabled"], "no") ||
			!forArch(strings.Fields(stanza["architectures"]), arch) {
			continue
		}
		signedBy := stanza["signed-by"]
		if strings.Contains(signedBy, "BEGIN PGP") {
			// A key written out in the file is nobody's but that repository's own.
			signedBy = "inline"
		}
		for _, uri := range strings.Fields(stanza["uris"]) {
			for _, suite := range strings.Fields(stanza["suites"]) {
				out = append(out, source{
					URI: uri, Suite: suite, Components: strings.Fields(stanza["components"]), SignedBy: signedBy,
				})
			}
		}
	}
	return out
}

// parseStanzas reads the format of Debian's control files: stanzas parted by empty lines, fields by name in lower case,
// continuation lines joined by newlines.
func parseStanzas(data []byte) []map[string]string {
	var (
		out     []map[string]string
		current map[string]string
		last    string
	)
	for line := range strings.SplitSeq(string(data), "\n") {
		line = strings.TrimRight(line, "\r")
		switch {
		case strings.TrimSpace(line) == "":
			current, last = nil, ""
		case strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if current != nil && last != "" {
				current[last] += "\n" + strings.TrimSpace(line)
			}
		default:
			key, value, ok := strings.Cut(line, ":")
			if !ok {
				continue
			}
			if current == nil {
				current = map[string]string{}
				out = append(out, current)
			}
			last = strings.ToLower(key)
			current[last] = strings.TrimSpace(value)
		}
	}
	return out
}

// forArch reports whether a list of architectures, where an empty one means all, holds arch.
func forArch(list []string, arch string) bool {
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
	return len(list) == 0 || slices.Contains(list, arch)
}

// line writes the source in the one-line format, trusted by keyring alone.
func (s source) line(keyring string) string {
	return fmt.Sprintf("deb [signed-by=%s] %s %s %s\n", keyring, s.URI, s.Suite, strings.Join(s.Components, " "))
}

// check returns an error unless the source can be written as one line that means what it says.
func (s source) check() error {
	u, err := url.Parse(s.URI)
	if err != nil || u.Scheme == "" || strings.ContainsAny(s.URI, " \t\n[]#") {
		return fmt.Errorf("malformed repository address %q", s.URI)
	}
	if s.Suite == "" || strings.ContainsAny(s.Suite, " \t\n[]#") {
		return fmt.Errorf("malformed suite %q", s.Suite)
	}
	return nil
}
