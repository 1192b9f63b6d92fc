// Package osthread gives code an OS thread of its own, for what the kernel keeps per thread: namespaces, and whom a child's
// parent-death signal is about.
//
// It knows nothing of what is done there. Start with Throwaway.
package osthread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Throwaway runs fn on a thread that ends with it, and waits for it. fn may change what the kernel keeps per thread. The thread
// lives as long as fn, for a child's parent-death signal fires when the very thread that made it dies.
func Throwaway(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The main thread can't end: it would keep its namespaces for as long as the process lives. While this goroutine
			// holds it, the next one gets another.
			done <- Throwaway(fn)
			runtime.UnlockOSThread()
			return
		}
		// It is never unlocked, which ends the thread with the goroutine.
		done <- fn()
	}()
	return <-done
}
