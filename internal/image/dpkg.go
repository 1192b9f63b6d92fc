package image

import (
	"cmp"
	"slices"
	"strings"

	"shoal/internal/core"
)

// parseStatus reads dpkg's status file and returns the packages that are installed, by name.
func parseStatus(data []byte) []core.Package {
	var out []core.Package
	for _, stanza := range parseStanzas(data) {
		status := strings.Fields(stanza["status"])
		if len(status) != 3 || status[2] != "installed" || stanza["package"] == "" {
			continue
		}
		out = append(out, core.Package{Name: stanza["package"], Version: stanza["version"]})
	}
	slices.SortFunc(out, func(a, b core.Package) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return out
}
