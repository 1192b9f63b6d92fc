package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
)

const mib = 1 << 20

// limit checks that a limit counts a clone's own writes, and bites in that clone only.
func (s *suite) limit(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	ref := e.template("abc", map[string]string{"big": strings.Repeat("x", 24*mib)})
	limited, err := e.d.Clone(ctx, ref, sandbox("limited"), disk.CloneOptions{LimitBytes: 16 * mib})
	if caps := e.d.Capabilities(); !caps.Quota {
		e.code(err, core.CodeUnsupported)
		if caps.QuotaReason == "" {
			t.Error("quotas are missing without a reason")
		}
		e.clone(ref, sandbox("unlimited"))
		e.code(e.d.Limit(ctx, sandbox("unlimited"), mib), core.CodeUnsupported)
		e.ok(e.d.Delete(ctx, sandbox("unlimited")))
		e.wantList(frozen(ref))
		return
	}
	e.ok(err)
	free, err := e.d.Clone(ctx, ref, sandbox("free"), disk.CloneOptions{})
	e.ok(err)
	sibling, err := e.d.Clone(ctx, ref, sandbox("sibling"), disk.CloneOptions{LimitBytes: 40 * mib})
	e.ok(err)

	// The template's 24 MiB don't count: 10 more fit, 32 don't.
	e.ok(writeSynced(filepath.Join(limited, "fits"), 10*mib))
	err = writeSynced(filepath.Join(limited, "too much"), 32*mib)
	if !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("writing beyond the limit: got %v, want EDQUOT or ENOSPC", err)
	}
	// Nobody else notices.
	e.ok(writeSynced(filepath.Join(free, "f"), 32*mib))
	e.ok(writeSynced(filepath.Join(sibling, "f"), 32*mib))
	// What is there can be read and removed, and then there is room again.
	b, err := os.ReadFile(filepath.Join(limited, "big"))
	e.ok(err)
	if len(b) != 24*mib {
		t.Errorf("read %d bytes of the template's file", len(b))
	}
	e.ok(os.Remove(filepath.Join(limited, "too much")))
	e.ok(os.Remove(filepath.Join(limited, "fits")))
	eventually(t, "room after removing files", func() bool {
		return writeSynced(filepath.Join(limited, "again"), 10*mib) == nil
	})
	// A limit survives a restart of the driver.
	e.reopen()
	if err := writeSynced(filepath.Join(limited, "too much"), 32*mib); err == nil {
		t.Error("the limit was forgotten by a reopen")
	}
	// More room is there at once, and less takes nothing away: it stops what is written from then on. Zero is no limit to be set.
	e.code(e.d.Limit(ctx, sandbox("limited"), 0), core.CodeInvalid)
	e.ok(e.d.Limit(ctx, sandbox("limited"), 80*mib))
	e.ok(writeSynced(filepath.Join(limited, "fits now"), 32*mib))
	e.ok(e.d.Limit(ctx, sandbox("limited"), 20*mib))
	if err := writeSynced(filepath.Join(limited, "too much again"), 8*mib); err == nil {
		t.Error("more was written than there may be")
	}
	if st, err := os.Stat(filepath.Join(limited, "fits now")); err != nil || st.Size() != 32*mib {
		t.Errorf("what had been written: %v", err)
	}
	e.ok(writeSynced(filepath.Join(sibling, "g"), mib))
	e.ok(e.d.Limit(ctx, sandbox("free"), 40*mib))
	if err := writeSynced(filepath.Join(free, "g"), 32*mib); err == nil {
		t.Error("one that had no limit has none still")
	}
	e.ok(e.d.Delete(ctx, sandbox("limited")))
}

func (s *suite) usage(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	ref := e.template("abc", map[string]string{"big": strings.Repeat("x", 8*mib)})
	path := e.clone(ref, sandbox("a"))
	usage := func(ref disk.Ref) int64 {
		t.Helper()
		u, err := e.d.Usage(ctx, ref)
		e.ok(err)
		return u.WrittenBytes
	}
	if !e.d.Capabilities().Quota {
		if got := usage(sandbox("a")); got != -1 {
			t.Errorf("usage without quotas is %d, want -1", got)
		}
		return
	}
	if got := usage(sandbox("a")); got < 0 || got > mib {
		t.Errorf("a fresh clone has written %d bytes", got)
	}
	e.ok(writeSynced(filepath.Join(path, "f"), 6*mib))
	if got := usage(sandbox("a")); got < 6*mib || got > 7*mib {
		t.Errorf("a clone that wrote 6 MiB has written %d bytes", got)
	}
	if got := usage(ref); got < 8*mib || got > 9*mib {
		t.Errorf("a template of 8 MiB has written %d bytes", got)
	}
	e.ok(os.Remove(filepath.Join(path, "f")))
	eventually(t, "usage of a removed file given back", func() bool {
		e.ok(syncFS(path))
		return usage(sandbox("a")) < mib
	})
}

// writeSynced writes a file of n bytes that don't compress, and waits until they are on disk.
func writeSynced(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, mib)
	seed := uint32(n)
	for i := range block {
		seed = seed*1664525 + 1013904223
		block[i] = byte(seed >> 24)
	}
	for range n / mib {
		if _, err := f.Write(block); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}

func syncFS(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("timed out waiting for %s", what)
		case <-tick.C:
		}
	}
}
