package guest

import (
	"slices"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// who returns the identity, nil before the first configure. It is not changed any more.
func (s *Server) who() *wire.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity
}

// admit reserves an exec's id and a place among the running ones.
func (s *Server) admit(e *execution) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return core.Errorf(core.CodeUnavailable, "the sandbox's guest agent is ending")
	case s.execs[e.id] != nil:
		return core.Errorf(core.CodeExists, "an exec with this id exists")
	case s.running >= s.cfg.MaxRunning:
		return core.Errorf(core.CodeExhausted, "the sandbox runs %d execs already", s.running)
	}
	s.execs[e.id] = e
	s.running++
	if s.guard != nil {
		select {
		case s.guard.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// busy reports whether an exec is being started or has a live process.
func (s *Server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running > 0
}

// forget undoes admit.
func (s *Server) forget(e *execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.execs, e.id)
	s.running--
}

// publish lets everyone find an exec that has started.
func (s *Server) publish(e *execution) {
	s.mu.Lock()
	s.order = append(s.order, e)
	e.published = true
	closed := s.closed
	s.mu.Unlock()
	if closed { // Close has not seen it
		e.kill(core.OutcomeCanceled)
	}
}

// find returns an exec that has started.
func (s *Server) find(id string) (*execution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.execs[id]
	if e == nil || !e.published {
		return nil, core.Errorf(core.CodeNotFound, "no such exec")
	}
	return e, nil
}

// released hears that an exec's group is gone.
func (s *Server) released() {
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	s.trim()
	s.evict(0)
}

// ended returns the execs whose group is gone, in the order in which they should be forgotten: those that the host has
// acknowledged first, then the oldest.
func (s *Server) ended() []*execution {
	s.mu.Lock()
	list := slices.Clone(s.order)
	s.mu.Unlock()
	var first, second []*execution
	for _, e := range list {
		switch gone, acked := e.forgettable(); {
		case gone && acked:
			first = append(first, e)
		case gone:
			second = append(second, e)
		}
	}
	return append(first, second...)
}

// trim forgets records beyond the bound, but for those whose output is still being read.
func (s *Server) trim() {
	s.mu.Lock()
	over := len(s.order) - s.cfg.MaxRecords
	s.mu.Unlock()
	if over <= 0 {
		return
	}
	list := s.ended()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range list {
		if len(s.order) <= s.cfg.MaxRecords {
			return
		}
		if s.execs[e.id] != e || !e.ring.drop() {
			continue // another one was faster, or it is being read
		}
		delete(s.execs, e.id)
		s.order = slices.DeleteFunc(s.order, func(o *execution) bool { return o == e })
	}
}

// evict drops the output of ended execs that nobody is reading until need more bytes fit into the budget.
func (s *Server) evict(need int64) {
	if s.budget.over()+need <= 0 {
		return
	}
	for _, e := range s.ended() {
		if s.budget.over()+need <= 0 {
			return
		}
		e.ring.drop()
	}
}
