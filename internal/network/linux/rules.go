package linux

import (
	"encoding/binary"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"shoal/internal/network"
)

// Names in the router's table.
const (
	tableName   = "shoal"
	mapName     = "slots"
	chainStamp  = "stamp"
	chainDecide = "decide"
	chainReturn = "unstamp"
)

// Priorities of the chains. The stamp must come before the kernel joins fragments (-400), which it does as soon as
// anything in the namespace wants connection tracking or a transparent proxy, and without regard to the interface: a
// packet could then be pieced together from two sandboxes.
const (
	priorityStamp  = -500
	priorityDecide = -150
	priorityReturn = 300
)

// loIndex is the interface index of lo in every network namespace.
const loIndex = 1

// Fields of the IPv4 header: offset and length in bytes.
var (
	fieldVersionIHL = field{offset: 0, length: 1}
	fieldFragment   = field{offset: 6, length: 2}
	fieldSource     = field{offset: 12, length: 4}
	fieldDest       = field{offset: 16, length: 4}
)

const (
	ipChecksum   = 10
	tcpFlags     = 13
	tcpSYN       = 0x02
	tcpACK       = 0x10
	icmpHeader   = 8
	icmpUnreach  = 3
	codePort     = 3
	codeProhibit = 13
)

type field struct{ offset, length uint32 }

// slotTable is the router's table with its one map from an interface's index to its slot's address.
func slotTable() (*nftables.Table, *nftables.Set) {
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
	return table, &nftables.Set{
		Table: table,
		Name:  mapName,
		// The library numbers sets with a global counter otherwise; the number only matters inside a batch.
		ID:           1,
		IsMap:        true,
		KeyType:      nftables.TypeIFIndex,
		DataType:     nftables.TypeIPAddr,
		KeyByteOrder: binaryutil.NativeEndian,
	}
}

// addRules puts the three chains into a batch.
func addRules(c *nftables.Conn, table *nftables.Table, slots *nftables.Set) {
	add := func(chain *nftables.Chain, comment string, parts ...[]expr.Any) {
		var exprs []expr.Any
		for _, p := range parts {
			exprs = append(exprs, p...)
		}
		c.AddRule(&nftables.Rule{
			Table: table, Chain: chain, Exprs: exprs,
			UserData: userdata.AppendString(nil, userdata.TypeComment, comment),
		})
	}
	gateway, guest := network.GatewayAddr.AsSlice(), network.GuestAddr.AsSlice()

	stamp := addChain(c, table, chainStamp, nftables.ChainHookPrerouting, priorityStamp)
	add(stamp, "own", match(meta(expr.MetaKeyIIF), native(loIndex)), accept())
	add(stamp, "options", differs(load(fieldVersionIHL), []byte{0x45}), drop())
	add(stamp, "fragment", load(fieldFragment), mask([]byte{0x3f, 0xff}), cmp(expr.CmpOpNeq, []byte{0, 0}), drop())
	add(stamp, "source", differs(load(fieldSource), guest), drop())
	add(stamp, "stamp", meta(expr.MetaKeyIIF), lookup(slots), store(fieldSource), accept())

	decide := addChain(c, table, chainDecide, nftables.ChainHookPrerouting, priorityDecide)
	add(decide, "own", match(meta(expr.MetaKeyIIF), native(loIndex)), accept())
	add(decide, "reply", protocol(unix.IPPROTO_TCP), match(load(fieldDest), gateway),
		transport(tcpFlags, 1), mask([]byte{tcpSYN | tcpACK}), cmp(expr.CmpOpNeq, []byte{tcpSYN}), accept())
	add(decide, "tcp", protocol(unix.IPPROTO_TCP), reject(unix.NFT_REJECT_TCP_RST, 0))
	add(decide, "udp", protocol(unix.IPPROTO_UDP), reject(unix.NFT_REJECT_ICMP_UNREACH, codePort))
	add(decide, "rest", reject(unix.NFT_REJECT_ICMP_UNREACH, codeProhibit))

	back := addChain(c, table, chainReturn, nftables.ChainHookPostrouting, priorityReturn)
	// A guest believes an ICMP error only if the packet quoted in it carries the guest's own address. The quoted
	// header's checksum is mended with it; the two changes cancel out in the checksum of the ICMP message.
	add(back, "quote", protocol(unix.IPPROTO_ICMP), transport(0, 1), cmp(expr.CmpOpEq, []byte{icmpUnreach}),
		immediate(guest), storeQuoted())
	add(back, "own", match(meta(expr.MetaKeyOIF), native(loIndex)), accept())
	first := slotPrefix.Addr().AsSlice()
	add(back, "unstamp", load(fieldDest), mask(prefixMask(slotPrefix.Bits())), cmp(expr.CmpOpEq, first),
		immediate(guest), store(fieldDest), accept())
}

func addChain(
	c *nftables.Conn, table *nftables.Table, name string, hook *nftables.ChainHook, priority nftables.ChainPriority,
) *nftables.Chain {
	policy := nftables.ChainPolicyDrop
	return c.AddChain(&nftables.Chain{
		Name: name, Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: hook, Priority: nftables.ChainPriorityRef(priority), Policy: &policy,
	})
}

// The parts of a rule. All work on register 1.

func meta(key expr.MetaKey) []expr.Any { return []expr.Any{&expr.Meta{Key: key, Register: 1}} }

func load(f field) []expr.Any {
	return []expr.Any{&expr.Payload{
		DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.offset, Len: f.length,
	}}
}

func transport(offset, length uint32) []expr.Any {
	return []expr.Any{&expr.Payload{
		DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length,
	}}
}

// store writes an address of the IPv4 header, and mends its checksum and that of the transport header.
func store(f field) []expr.Any {
	return []expr.Any{&expr.Payload{
		OperationType: expr.PayloadWrite, SourceRegister: 1,
		Base: expr.PayloadBaseNetworkHeader, Offset: f.offset, Len: f.length,
		CsumType: expr.CsumTypeInet, CsumOffset: ipChecksum, CsumFlags: unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR,
	}}
}

// storeQuoted writes the source in the IPv4 header that an ICMP error quotes.
func storeQuoted() []expr.Any {
	return []expr.Any{&expr.Payload{
		OperationType: expr.PayloadWrite, SourceRegister: 1,
		Base: expr.PayloadBaseTransportHeader, Offset: icmpHeader + fieldSource.offset, Len: fieldSource.length,
		CsumType: expr.CsumTypeInet, CsumOffset: icmpHeader + ipChecksum,
	}}
}

func immediate(data []byte) []expr.Any { return []expr.Any{&expr.Immediate{Register: 1, Data: data}} }

func lookup(slots *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{
		SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: slots.Name, SetID: slots.ID,
	}}
}

func mask(m []byte) []expr.Any {
	return []expr.Any{&expr.Bitwise{
		SourceRegister: 1, DestRegister: 1, Len: uint32(len(m)), Mask: m, Xor: make([]byte, len(m)),
	}}
}

func cmp(op expr.CmpOp, data []byte) []expr.Any {
	return []expr.Any{&expr.Cmp{Op: op, Register: 1, Data: data}}
}

func match(loaded []expr.Any, data []byte) []expr.Any {
	return append(loaded, cmp(expr.CmpOpEq, data)...)
}

func differs(loaded []expr.Any, data []byte) []expr.Any {
	return append(loaded, cmp(expr.CmpOpNeq, data)...)
}

func protocol(p byte) []expr.Any { return match(meta(expr.MetaKeyL4PROTO), []byte{p}) }

func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

// drop counts, so that an operator sees who tries what.
func drop() []expr.Any { return []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}} }

func reject(kind uint32, code uint8) []expr.Any {
	return []expr.Any{&expr.Counter{}, &expr.Reject{Type: kind, Code: code}}
}

func native(n uint32) []byte { return binaryutil.NativeEndian.PutUint32(n) }

func prefixMask(bits int) []byte {
	return binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-bits))
}
