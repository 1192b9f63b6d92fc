package software

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"shoal/internal/core"
)

// Parse returns the packages that a manifest's file tells of.
func (m Manifest) Parse(r io.Reader) []Package {
	switch m.Manager {
	case core.PackageDpkg:
		return parseStatus(io.LimitReader(r, MaxList))
	case core.PackagePip:
		return parseMetadata(io.LimitReader(r, MaxManifest))
	case core.PackageNpm:
		return parseNpm(io.LimitReader(r, MaxManifest))
	case core.PackageCargo:
		return parseCrates(io.LimitReader(r, MaxManifest))
	case core.PackageGo: // it has no file of its own
	}
	return nil
}

// maxLine bounds a line that is looked at: one that is longer is passed over.
const maxLine = 4096

// lines calls f for each line, without its end, until f returns false. Of a line that is too long f sees nothing.
func lines(r io.Reader, f func(line string) bool) {
	b := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := b.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = b.ReadSlice('\n')
		}
		if !long && (err == nil || len(line) > 0) && !f(strings.TrimRight(string(line), "\r\n")) {
			return
		}
		if err != nil {
			return
		}
	}
}

// parseStatus reads dpkg's list. Its stanzas have empty lines between.
func parseStatus(r io.Reader) (list []Package) {
	seen := map[string]bool{}
	var p Package
	arch, removed := "", false
	add := func() {
		if p.ok() && !removed && len(list) < maxPackages {
			if seen[p.Name] { // it is there for several machines
				p.Name += ":" + arch
			}
			if !seen[p.Name] && p.ok() {
				seen[p.Name] = true
				list = append(list, p)
			}
		}
		p, arch, removed = Package{}, "", false
	}
	lines(r, func(line string) bool {
		if strings.TrimSpace(line) == "" {
			add()
			return len(list) < maxPackages
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok || line[0] == ' ' || line[0] == '\t' {
			return true
		}
		value = strings.TrimSpace(value)
		switch key {
		case "Package":
			p.Name = value
		case "Version":
			p.Version = value
		case "Architecture":
			arch = value
		case "Status": // those of images without dpkg have none
			words := strings.Fields(value)
			removed = len(words) != 3 || words[2] != "installed"
		}
		return true
	})
	add()
	return list
}

// parseMetadata reads what a Python package says of itself: the head of a mail.
func parseMetadata(r io.Reader) []Package {
	var p Package
	lines(r, func(line string) bool {
		if line == "" {
			return false
		}
		key, value, _ := strings.Cut(line, ":")
		switch {
		case strings.EqualFold(key, "Name") && p.Name == "":
			p.Name = pythonName(strings.TrimSpace(value))
		case strings.EqualFold(key, "Version") && p.Version == "":
			p.Version = strings.TrimSpace(value)
		}
		return p.Name == "" || p.Version == ""
	})
	return one(p)
}

// pythonName returns the one form of a name that has several: letter case and runs of -, _ and . mean nothing.
func pythonName(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return strings.Join(words, "-")
}

// parseNpm reads the manifest of a package of npm.
func parseNpm(r io.Reader) []Package {
	var m struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if json.NewDecoder(r).Decode(&m) != nil {
		return nil
	}
	return one(Package{m.Name, m.Version})
}

// parseCrates reads cargo's list of programs, whose lines are "name version (source)" = ["program"].
func parseCrates(r io.Reader) (list []Package) {
	lines(r, func(line string) bool {
		rest, quoted := strings.CutPrefix(line, `"`)
		key, _, closed := strings.Cut(rest, `"`)
		words := strings.Fields(key)
		if quoted && closed && len(words) >= 2 {
			if p := (Package{words[0], words[1]}); p.ok() {
				list = append(list, p)
			}
		}
		return len(list) < maxPackages
	})
	return list
}

func one(p Package) []Package {
	if !p.ok() {
		return nil
	}
	return []Package{p}
}
