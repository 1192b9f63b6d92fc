package gvisor

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// KeepFirstThread reserves the process's first thread for the calling goroutine, which must be main's, for good. A program
// that opens a Driver calls it first thing in main, after RunFace.
//
// To start a sandbox gVisor's library moves its thread into the sandbox's network namespace, and afterwards into the one that
// /proc/self/ns/net names, which is the first thread's. Were the first thread itself on such a way, a start on another thread
// would end in a stranger's namespace, and the scheduler would give that thread to whoever comes next.
func KeepFirstThread() error {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		return errors.New("main does not run on the process's first thread")
	}
	return nil
}
