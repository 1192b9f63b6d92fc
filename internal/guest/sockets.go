package guest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"

	"shoal/internal/guest/wire"
)

// socket is a listener with its inode.
type socket struct {
	wire.Listener
	inode string
}

const (
	// The states of sockets that wait for others: a TCP socket that listens, and one of UDP that is not connected.
	tcpListening = "0A"
	udpOpen      = "07"
	// socketFields is how many fields of a line are needed: the addresses are the second and third, the state is the fourth, the inode
	// the tenth.
	socketFields = 10
)

// parseSockets reads what /proc/net tells of sockets of a protocol, and returns those that wait for others.
func parseSockets(text []byte, proto string) (list []socket) {
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < socketFields {
			continue
		}
		state := string(f[3])
		if proto == "tcp" && state != tcpListening || proto == "udp" && state != udpOpen {
			continue
		}
		local, ok := parseEndpoint(f[1])
		remote, remoteOK := parseEndpoint(f[2])
		if !ok || !remoteOK || local.Port() == 0 || remote.Port() != 0 {
			continue
		}
		list = append(list, socket{wire.Listener{Proto: proto, Address: local.Addr().String(), Port: local.Port()}, string(f[9])})
	}
	return list
}

// parseEndpoint reads an address as the kernel writes it: words of four bytes in the order of the machine, and a port.
func parseEndpoint(text []byte) (netip.AddrPort, bool) {
	host, port, ok := bytes.Cut(text, []byte{':'})
	n, err := strconv.ParseUint(string(port), 16, 16)
	if !ok || err != nil || len(host) != 8 && len(host) != 32 {
		return netip.AddrPort{}, false
	}
	raw := make([]byte, hex.DecodedLen(len(host)))
	if _, err := hex.Decode(raw, host); err != nil {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}
