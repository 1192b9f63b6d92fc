package guest

import (
	"syscall"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// limit changes those of the sandbox's limits that are the agent's to hold: what runs already keeps its number of descriptors,
// everything else holds at once.
func (c *session) limit(q wire.Limits) (wire.Empty, error) { return wire.Empty{}, c.srv.limit(q) }

// limit sets memory first: it is what can be refused.
func (s *Server) limit(q wire.Limits) error {
	if q.MemoryBytes < 0 || q.Pids < 0 || q.OpenFiles < 0 {
		return core.Invalid("limits", "a limit is not negative")
	}
	s.limits.Lock()
	defer s.limits.Unlock()
	if q.MemoryBytes > 0 {
		if s.guard == nil {
			return core.Errorf(core.CodeUnsupported, "nothing tells the guest agent how much memory is in use")
		}
		if err := s.guard.limit(q.MemoryBytes, q.Force); err != nil {
			return err
		}
	}
	if q.Pids > 0 {
		if err := s.groups.limit(q.Pids); err != nil {
			return err
		}
	}
	if q.OpenFiles > 0 {
		if !s.cfg.Init {
			return core.Errorf(core.CodeUnsupported, "only a sandbox's init can limit open files")
		}
		// Children inherit it. The agent lives with it too: its own need is some three descriptors for each exec and connection.
		n := uint64(q.OpenFiles)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return core.Wrap(core.CodeInternal, err, "the number of open files can't be limited")
		}
	}
	return nil
}
