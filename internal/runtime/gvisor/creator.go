package gvisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/container"
)

// creatorMain is main of the creator's face: read one job, carry it out, answer, end. Sentry and gofer go on. It is in the
// sandbox's groups when the job comes, so that Kill finds it and all that it starts.
//
// Why a process of its own: making a sandbox in gVisor's library hands the caller's streams to the guest, moves the caller
// through control groups, changes its limits, and can't be interrupted. Here all of that happens to a process that ends.
func creatorMain() int {
	out := os.NewFile(resultFD, "result")
	r, err := createFromJob()
	if err != nil {
		r = result{Err: err.Error()}
	}
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return 1
	}
	return 0
}

// createFromJob does a creator's work.
func createFromJob() (result, error) {
	takeLibraryLog(slog.New(slog.DiscardHandler))
	j, netNS, err := receiveJob(jobFD)
	if err != nil {
		return result{}, err
	}
	if err := unix.Close(jobFD); err != nil {
		return result{}, fmt.Errorf("close job: %w", err)
	}
	unix.Umask(0o022)
	if _, err := limitDescriptors(); err != nil {
		return result{}, err
	}
	stage, err := newStage(j)
	if err != nil {
		return result{}, err
	}
	spec := newSpec(specInput{
		stage: stage, netNS: "/proc/self/fd/" + strconv.Itoa(netNS), hostname: j.Hostname,
		ownerUID: j.OwnerUID, ownerIDs: j.OwnerIDs,
	})
	bundle := filepath.Join(stage, j.Bundle)
	text, err := json.Marshal(spec)
	if err != nil {
		return result{}, fmt.Errorf("encode spec: %w", err)
	}
	if err := errors.Join(os.Mkdir(bundle, 0o755), os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o644)); err != nil {
		return result{}, fmt.Errorf("write bundle: %w", err)
	}
	conf, err := newConfig(filepath.Join(stage, stageState), j.DebugLogDir)
	if err != nil {
		return result{}, err
	}
	begun := time.Now()
	c, err := container.New(conf, container.Args{ID: j.Container, Spec: spec, BundleDir: bundle})
	if err != nil {
		if status, readErr := os.ReadFile("/proc/self/status"); readErr == nil && isTraced(status) {
			err = fmt.Errorf("a debugger or strace follows the server's children, which gVisor must trace itself: %w", err)
		}
		return result{}, fmt.Errorf("make sandbox: %w", err)
	}
	took := time.Since(begun)
	sentry, _, err := lookProcess(c.SandboxPid())
	if err != nil {
		return result{}, fmt.Errorf("look at sentry: %w", err)
	}
	gofer, _, err := lookProcess(c.GoferPid.Load())
	if err != nil {
		return result{}, fmt.Errorf("look at gofer: %w", err)
	}
	return result{Sentry: sentry, Gofer: gofer, Took: took}, nil
}

// isTraced reports whether a process's status file says that another process traces it. A sandbox can't be made then, and dies
// without saying why.
func isTraced(status []byte) bool {
	_, rest, found := bytes.Cut(status, []byte("\nTracerPid:"))
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	return found && string(bytes.TrimSpace(value)) != "0"
}

// sandboxFiles is how many descriptors of the host a sandbox may have: each file of its tree that is open inside is one.
// What the server was started with is not the measure: sometimes that is a thousand, sometimes a million.
const sandboxFiles = 1 << 16

// limitDescriptors sets the limit for the sentry and the gofer, which inherit it, and returns what it is. Where it may not be raised
// it stays as it is.
func limitDescriptors() (int, error) {
	limit := syscall.Rlimit{Cur: sandboxFiles, Max: sandboxFiles}
	err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	if errors.Is(err, unix.EPERM) {
		err = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	if err != nil {
		return 0, fmt.Errorf("limit descriptors: %w", err)
	}
	return int(limit.Cur), nil
}
