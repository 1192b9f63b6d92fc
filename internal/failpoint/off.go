//go:build !failpoint

package failpoint

import "shoal/internal/core"

// Enabled says whether points can be armed in this build.
const Enabled = false

// Hit does nothing in a release.
func Hit(string) error { return nil }

// Clock returns c in a release.
func Clock(_ string, c core.Clock) core.Clock { return c }
