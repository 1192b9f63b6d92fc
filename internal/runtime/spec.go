package runtime

import (
	"context"
	"strings"

	"shoal/internal/core"
)

// maxHostname is the kernel's bound on a host name.
const maxHostname = 64

// Check refuses a Spec that could not work, with the field to blame.
func (s Spec) Check() error {
	if !core.IsID(string(s.ID)) {
		return core.Invalid("id", "the sandbox id is not an id")
	}
	if err := checkPath("run_dir", s.RunDir); err != nil {
		return err
	}
	if s.Parts == nil {
		if err := s.checkParts(); err != nil {
			return err
		}
	}
	if len(s.Hostname) > maxHostname {
		return core.Invalid("hostname", "a hostname has at most %d characters", maxHostname)
	}
	return CheckResources(s.Resources)
}

// CheckResources refuses limits that make no sense.
func CheckResources(r core.Resources) error {
	if r.MemoryBytes < 0 || r.VCPUs < 0 || r.CPUWeight < 0 || r.IOWeight < 0 {
		return core.Invalid("resources", "limits can't be negative")
	}
	return nil
}

// WithParts returns the Spec with RootFS and NetNS filled in.
func (s Spec) WithParts(ctx context.Context) (Spec, error) {
	if s.Parts == nil {
		return s, nil
	}
	var err error
	if s.RootFS, s.NetNS, err = s.Parts(ctx); err != nil {
		return s, err
	}
	s.Parts = nil
	return s, s.checkParts()
}

func (s Spec) checkParts() error {
	if err := checkPath("root_fs", s.RootFS); err != nil {
		return err
	}
	return checkPath("net_ns", s.NetNS)
}

func checkPath(field, path string) error {
	if !strings.HasPrefix(path, "/") {
		return core.Invalid(field, "an absolute path is needed")
	}
	return nil
}
