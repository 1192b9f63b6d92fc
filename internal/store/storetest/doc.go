// Package storetest is the contract of internal/store as tests. Every driver passes the same suite:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, dir string) store.Store { … })
//	}
//
// It must not know any driver, nor look behind the contract. Start reading at run.go.
package storetest
