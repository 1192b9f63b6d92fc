package software

import (
	"debug/buildinfo"
	"io"
)

// MaxProgram bounds a program that is looked into.
const MaxProgram = 1 << 30

// Magic is how a program for Linux begins.
const Magic = "\x7fELF"

// Program returns what a Go program says it was built of; false if it is none, or says nothing.
func Program(r io.ReaderAt) (p Package, ok bool) {
	defer func() {
		// The library reads a format that has many ways to lie.
		if recover() != nil {
			p, ok = Package{}, false
		}
	}()
	info, err := buildinfo.Read(io.NewSectionReader(r, 0, MaxProgram))
	if err != nil {
		return Package{}, false
	}
	p = Package{Name: info.Path, Version: info.Main.Version}
	if p.Name == "" {
		p.Name = info.Main.Path
	}
	for _, s := range info.Settings {
		// One that was built from a checkout has no version, and differs by what was checked out.
		if s.Key == "vcs.revision" && (p.Version == "" || p.Version == "(devel)") {
			p.Version = "devel-" + s.Value[:min(len(s.Value), 12)]
		}
	}
	return p, p.ok()
}
