//go:build !failpoint

package failpoint

// Enabled says whether points can be armed in this build.
const Enabled = false

// Hit does nothing in a release.
func Hit(string) error { return nil }
