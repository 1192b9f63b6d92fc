package httpapi_test

import (
	"strings"
	"testing"

	"shoal/api"
	"shoal/internal/core"
)

// TestEventTypes: the document names every type of event.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	for _, line := range strings.Split(api.OpenAPI(), "\n") {
		if !strings.Contains(line, "What happened as noun.verb") {
			continue
		}
		for _, typ := range core.EventTypes() {
			if !strings.Contains(line, "`"+string(typ)+"`") {
				t.Errorf("api/openapi.yaml doesn't name %s among the types of events", typ)
			}
		}
		if n := strings.Count(line, "`") / 2; n != len(core.EventTypes()) {
			t.Errorf("it names %d types, and there are %d", n, len(core.EventTypes()))
		}
		return
	}
	t.Fatal("api/openapi.yaml doesn't list the types of events")
}
