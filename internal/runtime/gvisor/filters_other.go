//go:build !amd64

package gvisor

import "gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"

// compiledFilters is empty here: the sentry compiles its filter at each start.
func compiledFilters() []precompiledseccomp.Program { return nil }
