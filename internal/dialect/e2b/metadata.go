package e2b

import (
	"net/url"
	"strings"

	"shoal/internal/core"
)

// parseMetadata reads the filter of a list: pairs key=value joined by &, percent-encoded by the SDKs twice over before they encode the
// whole once more as a query parameter, which has been undone by now. A filter that was encoded less often reads the same unless it
// has percent signs of its own.
func parseMetadata(filter string) (map[string]string, error) {
	if filter == "" {
		return nil, nil //nolint:nilnil // No filter is a filter that selects nothing out.
	}
	once, err := url.PathUnescape(filter)
	if err != nil {
		return nil, core.Invalid("metadata", "metadata: a percent sign begins no escape")
	}
	out := map[string]string{}
	for _, pair := range strings.Split(once, "&") {
		k, v, ok := strings.Cut(pair, "=")
		key, keyErr := url.PathUnescape(k)
		value, valueErr := url.PathUnescape(v)
		if !ok || key == "" || keyErr != nil || valueErr != nil {
			return nil, core.Invalid("metadata", "metadata: write KEY=VALUE&KEY=VALUE, each part percent-encoded")
		}
		if old, again := out[key]; again && old != value {
			return nil, core.Invalid("metadata", "metadata: no sandbox has two values of %q", clip(key))
		}
		out[key] = value
	}
	return out, nil
}
