package guest_test

import (
	"testing"

	"shoal/internal/guest"
	"shoal/internal/guest/client"
	"shoal/test/filestest"
)

// TestFileContract: the guest agent answers about files as the tree of a sandbox that doesn't run does.
func TestFileContract(t *testing.T) {
	filestest.Run(t, func(t *testing.T) filestest.Box {
		t.Helper()
		a := startAgent(t, guest.Config{}, client.Config{})
		dir := t.TempDir()
		return filestest.Box{Reader: a.client, Host: dir, Inside: dir}
	})
}
