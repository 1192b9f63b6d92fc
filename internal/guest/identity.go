package guest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

// maxHostname is the kernel's bound.
const maxHostname = 64

// isHostname reports whether a name is of letters, digits, dots and dashes, with a letter or digit at both ends.
func isHostname(name string) bool {
	return name != "" && len(name) <= maxHostname && strings.Trim(name, alphanumeric+".-") == "" &&
		strings.Trim(name[:1]+name[len(name)-1:], alphanumeric) == ""
}

// ping answers without doing anything.
func (c *session) ping(wire.Empty) (wire.Hello, error) {
	h := wire.Hello{Version: wire.Version}
	if id := c.srv.who(); id != nil {
		h.Sandbox, h.Incarnation = id.Sandbox, id.Incarnation
	}
	return h, nil
}

// configure tells the agent whose it is. It may come again, with the same or a new identity: what runs keeps its
// environment, what starts from then on has the new one. An older incarnation of the same sandbox is a late message.
func (c *session) configure(id wire.Identity) (wire.Empty, error) {
	if id.Sandbox == "" {
		return wire.Empty{}, core.Invalid("sandbox", "an identity has a sandbox")
	}
	if id.Hostname != "" && !isHostname(id.Hostname) {
		return wire.Empty{}, core.Invalid("hostname", "not a host name: %q", id.Hostname)
	}
	if id.Workdir != "" && !strings.HasPrefix(id.Workdir, "/") {
		return wire.Empty{}, core.Invalid("workdir", "the working directory is not absolute: %q", id.Workdir)
	}
	s := c.srv
	if old := s.who(); old != nil && old.Sandbox == id.Sandbox && id.Incarnation < old.Incarnation {
		return wire.Empty{}, core.Errorf(core.CodeConflict, "the sandbox is at incarnation %d already", old.Incarnation)
	}
	if s.cfg.Init {
		if err := personalize(id); err != nil {
			return wire.Empty{}, core.Wrap(core.CodeInternal, err, "the sandbox's name can't be set")
		}
	}
	if id.Limits != nil {
		if err := s.limit(*id.Limits); err != nil {
			return wire.Empty{}, err
		}
	}
	s.mu.Lock()
	s.identity = &id
	s.mu.Unlock()
	return wire.Empty{}, nil
}

// personalize writes what programs read of a machine's identity: its host name, the same in /etc, and the machine id.
func personalize(id wire.Identity) error {
	if id.Hostname != "" {
		if err := unix.Sethostname([]byte(id.Hostname)); err != nil {
			return fmt.Errorf("set host name: %w", err)
		}
		if err := replaceFile("/etc/hostname", []byte(id.Hostname+"\n")); err != nil {
			return err
		}
		if err := nameInHosts(id.Hostname); err != nil {
			return err
		}
	}
	sum := sha256.Sum256([]byte("machine " + id.Sandbox))
	return replaceFile("/etc/machine-id", []byte(hex.EncodeToString(sum[:16])+"\n"))
}

// nameInHosts makes the host name resolve without a resolver: sudo, for one, asks for it each time.
func nameInHosts(name string) error {
	old, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read hosts: %w", err)
	}
	if len(old) == 0 {
		old = []byte(files.DefaultHosts)
	}
	var b bytes.Buffer
	for line := range strings.Lines(string(old)) {
		if !strings.HasSuffix(strings.TrimSpace(line), files.HostsMark) {
			b.WriteString(line)
		}
	}
	if n := b.Len(); n > 0 && b.Bytes()[n-1] != '\n' {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "127.0.1.1 %s %s\n", name, files.HostsMark)
	return replaceFile("/etc/hosts", b.Bytes())
}

// replaceFile writes a file of /etc in one step, unless it is right already. A tree without /etc has nobody who reads
// it.
func replaceFile(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	tmp := name + ".shoal"
	err := os.WriteFile(tmp, data, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(tmp, name); err == nil {
		return nil
	}
	// Something is mounted on it: then its content is what can be changed.
	_ = os.Remove(tmp)
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
