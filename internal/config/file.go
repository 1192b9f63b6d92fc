package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileVersion is the version of the file's format. A program that changes the format raises it and still reads the old one.
const fileVersion = "1"

func (l *loader) readFile(path string, named bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		if named && errors.Is(err, os.ErrNotExist) {
			l.problem("%s: there is no such file", path)
		} else {
			l.problem("%s: the file can't be read: %v", path, errors.Unwrap(err))
		}
		return
	}
	root, err := parseFile(data)
	if err != nil {
		l.problem("%s: %v", path, err)
		return
	}
	f := file{loader: l, name: filepath.Base(path)}
	if root == nil {
		f.problem("%s line 1: version is missing: begin the file with \"version: %s\"", f.name, fileVersion)
		return
	}
	f.readVersion(root)
	f.readSection("", root)
}

// parseFile returns the file's one mapping, nil if there is nothing in it.
func parseFile(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file holds more than one YAML document")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: the file is not a list of \"key: value\"", root.Line)
	}
	return root, nil
}

// file reads one file's tree.
type file struct {
	*loader
	name string
}

func (f *file) at(n *yaml.Node) string { return fmt.Sprintf("%s line %d", f.name, n.Line) }

func (f *file) readVersion(root *yaml.Node) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if k, v := root.Content[i], root.Content[i+1]; k.Value == "version" {
			if v.Kind != yaml.ScalarNode || v.Value != fileVersion {
				f.problem("%s: version is %q: this program reads version %s", f.at(v), v.Value, fileVersion)
			}
			return
		}
	}
	f.problem("%s line 1: version is missing: begin the file with \"version: %s\"", f.name, fileVersion)
}

// readSection walks a mapping; prefix is the section's key with a dot behind, empty at the top.
func (f *file) readSection(prefix string, section *yaml.Node) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(section.Content); i += 2 {
		k, v := section.Content[i], section.Content[i+1]
		key := prefix + k.Value
		if seen[key] {
			f.problem("%s: %s is set twice", f.at(k), key)
			continue
		}
		seen[key] = true
		if key == "version" {
			continue
		}
		if s, ok := f.find(key); ok {
			f.readSetting(s, k, v)
			continue
		}
		inside := func(s setting) bool { return strings.HasPrefix(s.key, key+".") }
		if prefix != "" || k.Kind != yaml.ScalarNode || !slices.ContainsFunc(f.settings, inside) {
			f.unknown(f.at(k), "key "+key, key)
			continue
		}
		if v.Kind != yaml.MappingNode {
			f.problem("%s: %s is a section: write its keys below it, indented", f.at(k), key)
			continue
		}
		f.readSection(key+".", v)
	}
}

func (f *file) readSetting(s setting, k, v *yaml.Node) {
	from := origin{text: f.at(k), set: true}
	switch {
	case s.kind == "list" && v.Kind == yaml.SequenceNode:
		words := make([]string, len(v.Content))
		for i, item := range v.Content {
			if item.Kind != yaml.ScalarNode || strings.ContainsAny(item.Value, ", ") || item.Value == "" {
				f.problem("%s: %s holds something else than words: allowed is %s", f.at(item), s.key, s.allowed)
				return
			}
			words[i] = item.Value
		}
		f.set(s, strings.Join(words, ","), from)
	case s.kind == "list":
		f.problem("%s: %s is not a list: allowed is %s", f.at(k), s.key, s.allowed)
	case v.Kind != yaml.ScalarNode:
		f.problem("%s: %s is not a single value: allowed is %s", f.at(k), s.key, s.allowed)
	case v.Tag == "!!null":
		f.problem("%s: %s has no value: leave the line out, or write \"\" for an empty one", f.at(k), s.key)
	default:
		f.set(s, v.Value, from)
	}
}
