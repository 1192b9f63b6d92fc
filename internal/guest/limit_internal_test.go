package guest

import (
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// fixedMemory is a machine of 1 GiB with so much in use.
type fixedMemory int64

func (m fixedMemory) Used() (used, limit int64, err error) { return int64(m), 1 << 30, nil }
func (m fixedMemory) Close() error                         { return nil }

func TestLimit(t *testing.T) {
	s, err := New(Config{Memory: fixedMemory(300 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limit := func() int64 {
		_, n, _ := s.guard.used()
		return n
	}
	for _, tc := range []struct {
		limits wire.Limits
		code   core.Code
		// holds is the limit of memory afterwards.
		holds int64
	}{
		{limits: wire.Limits{}, holds: 1 << 30},
		{limits: wire.Limits{MemoryBytes: 400 << 20}, holds: 400 << 20},
		{limits: wire.Limits{MemoryBytes: 200 << 20}, code: core.CodeConflict, holds: 400 << 20},
		{limits: wire.Limits{MemoryBytes: 4 << 30}, holds: 4 << 30},
		{limits: wire.Limits{MemoryBytes: 200 << 20, Force: true}, holds: 200 << 20},
		{limits: wire.Limits{MemoryBytes: -1}, code: core.CodeInvalid, holds: 200 << 20},
		// This is no sandbox: what it can't hold it says.
		{limits: wire.Limits{Pids: 10}, code: core.CodeUnsupported, holds: 200 << 20},
		{limits: wire.Limits{OpenFiles: 2000}, code: core.CodeUnsupported, holds: 200 << 20},
	} {
		err := s.limit(tc.limits)
		if (tc.code == "") != (err == nil) || err != nil && core.CodeOf(err) != tc.code || limit() != tc.holds {
			t.Errorf("%+v: %v, and then %d hold", tc.limits, err, limit())
		}
		if tc.code == core.CodeConflict && !strings.Contains(err.Error(), "300 MiB") {
			t.Errorf("%v", err)
		}
	}
}
