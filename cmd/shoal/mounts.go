package main

import (
	"slices"
	"strings"

	"shoal/internal/mountinfo"
)

// mountsBelow returns the mount points below a directory, the deepest first.
func mountsBelow(dir string) ([]string, error) {
	all, err := mountinfo.Read(mountinfo.Self)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range slices.Backward(all) {
		if strings.HasPrefix(m.Point, dir+"/") {
			out = append(out, m.Point)
		}
	}
	return out, nil
}
