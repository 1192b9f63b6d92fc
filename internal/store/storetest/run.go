package storetest

import (
	"os"
	"testing"

	"shoal/internal/store"
)

// Open opens the store that is kept in dir, an existing directory, and fails the test if it can't. Opened again after
// Close, or after the process that had it open was killed, it holds what was acknowledged. The suite closes it.
type Open func(t *testing.T, dir string) store.Store

// Run runs the whole suite. Call it from a top-level test of the driver, once: the durability tests start that test again
// in a child process.
func Run(t *testing.T, open Open) {
	t.Helper()
	if dir := os.Getenv(childDir); dir != "" {
		writeUntilKilled(t, open(t, dir), os.Getenv(childMode))
		return
	}
	groups := []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"Transaction", testTransaction},
		{"Sandbox", testSandbox},
		{"List", testList},
		{"Tenancy", testTenancy},
		{"Tenant", testTenant},
		{"Audit", testAudit},
		{"Template", testTemplate},
		{"Checkpoint", testCheckpoint},
		{"Exec", testExec},
		{"Operation", testOperation},
		{"Event", testEvent},
		{"EventFilter", testEventFilter},
		{"Usage", testUsage},
		{"Key", testKey},
		{"KeyAndSetting", testKeyAndSetting},
		{"RegistryLogin", testRegistryLogin},
		{"KeyedCall", testKeyedCall},
		{"Concurrency", testConcurrency},
		{"Scale", testScale},
		{"Durability", testDurability},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.run(t, open) })
	}
}

// suite is one open store with the words that tests use on it.
type suite struct {
	*testing.T
	store.Store
}

func start(t *testing.T, open Open) *suite {
	t.Helper()
	s := &suite{T: t, Store: open(t, t.TempDir())}
	t.Cleanup(func() {
		if err := s.Store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
