package dialect_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// domain is the server's domain in these tests. No resolver of the machine knows it, nor ever will.
const domain = "shoal.test"

// names lets programs find the domain and all names below it at loopback, as an installation's DNS would: they run in a mount
// namespace of their own with another resolv.conf, so nothing of it is left when they have ended.
type names struct{ dir string }

// serveNames starts a name server that ends with the test.
func serveNames(t *testing.T) *names {
	t.Helper()
	conn := listenNames(t)
	done := make(chan struct{})
	go func() { defer close(done); answerNames(conn) }()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	n := &names{dir: t.TempDir()}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"resolv.conf": "nameserver " + host + "\n", "nsswitch.conf": "hosts: files dns\n"} {
		if err := os.WriteFile(filepath.Join(n.dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// listenNames takes the port of name servers at a loopback address where nobody has it.
func listenNames(t *testing.T) net.PacketConn {
	t.Helper()
	var errs []error
	for i := range 50 {
		conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", fmt.Sprintf("127.%d.%d.53:53", 1+os.Getpid()%250, 1+i))
		if err == nil {
			return conn
		}
		errs = append(errs, err)
	}
	t.Fatal(errors.Join(errs...))
	return nil
}

// answerNames answers until the connection is closed.
func answerNames(conn net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply, err := nameReply(buf[:n]); err == nil {
			_, _ = conn.WriteTo(reply, from) // who asked asks again
		}
	}
}

func nameReply(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, errors.New("no question")
	}
	q := m.Questions[0]
	name := strings.ToLower(q.Name.String())
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionDesired: m.RecursionDesired, RecursionAvailable: true}
	m.Answers, m.Authorities, m.Additionals = nil, nil, nil
	switch {
	case name != domain+"." && !strings.HasSuffix(name, "."+domain+"."):
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	return m.Pack()
}

// wrap makes a command, which must not have begun, find the names.
func (n *names) wrap(cmd *exec.Cmd) {
	const script = `mount --bind "$0/resolv.conf" /etc/resolv.conf && mount --bind "$0/nsswitch.conf" /etc/nsswitch.conf && exec "$@"`
	cmd.Args = append([]string{"sh", "-c", script, n.dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	// What is mounted there is private: Go sees to that where it makes a mount namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
}
