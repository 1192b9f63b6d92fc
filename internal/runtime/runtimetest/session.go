package runtimetest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// answerTimeout bounds one answer of a test agent.
const answerTimeout = 20 * time.Second

// Session is a connection to a test agent.
type Session struct {
	conn  net.Conn
	lines *bufio.Reader
}

// Dial connects to a sandbox's test agent as soon as it listens.
func Dial(tb testing.TB, d runtime.Driver, id core.SandboxID) *Session {
	tb.Helper()
	var s *Session
	Eventually(tb, func() error {
		conn, err := d.DialGuest(tb.Context(), id)
		if err != nil {
			return err
		}
		s = &Session{conn: conn, lines: bufio.NewReader(conn)}
		return nil
	})
	tb.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// Ask sends one line and returns the answer.
func (s *Session) Ask(format string, args ...any) (string, error) {
	return s.askWithin(answerTimeout, format, args...)
}

// askWithin is Ask with a bound of its own, for an agent that should be dead: its network may swallow what is sent.
func (s *Session) askWithin(limit time.Duration, format string, args ...any) (string, error) {
	if err := s.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", fmt.Errorf("set deadline: %w", err)
	}
	if _, err := fmt.Fprintf(s.conn, format+"\n", args...); err != nil {
		return "", fmt.Errorf("ask agent: %w", err)
	}
	return s.line()
}

// next returns the answer to what was asked before.
func (s *Session) next(limit time.Duration) (string, error) {
	if err := s.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", fmt.Errorf("set deadline: %w", err)
	}
	return s.line()
}

func (s *Session) line() (string, error) {
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// Must is Ask for a test that can't go on without an answer.
func (s *Session) Must(tb testing.TB, format string, args ...any) string {
	tb.Helper()
	got, err := s.Ask(format, args...)
	if err != nil {
		tb.Fatalf("ask agent %q: %v", fmt.Sprintf(format, args...), err)
	}
	return got
}

// Eventually calls check until it returns nil, for at most ten seconds.
func Eventually(tb testing.TB, check func() error) {
	tb.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("still after ten seconds: %v", err)
		case <-tick.C:
		}
	}
}
