package doctor

import (
	"context"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"shoal/internal/osthread"
)

// checkNftables makes rules of every kind that hold sandboxes' traffic, in a network namespace that ends with the check.
func checkNftables(_ context.Context, h host, _ Options) Check {
	const name = "nftables"
	if h.euid != 0 {
		return Check{name, Warn, "can't be tried without root", "unknown", "sudo shoal doctor"}
	}
	if err := h.nftables(); err != nil {
		return Check{
			name, Fail, "the rules that hold traffic can't be made: " + err.Error(), "no sandbox can have a network that is under control",
			"load the modules: modprobe -a nf_tables nft_reject_ipv4 nft_tproxy; a kernel without them (CONFIG_NF_TABLES, CONFIG_NFT_TPROXY, CONFIG_NFT_REJECT) can't be used",
		}
	}
	return good(name, "maps, header writes, reject and tproxy work")
}

// tryNftables makes the rules one kind at a time, so that an error names what is missing.
func tryNftables() error {
	return osthread.Throwaway(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		c, err := nftables.New()
		if err != nil {
			return fmt.Errorf("talk to nftables: %w", err)
		}
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "shoal-doctor"})
		chain := c.AddChain(&nftables.Chain{
			Table: table, Name: "stamp", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting,
			Priority: nftables.ChainPriorityRef(-500),
		})
		if err := c.Flush(); err != nil {
			return fmt.Errorf("make a table: %w", err)
		}
		for _, kind := range ruleKinds() {
			exprs := kind.exprs
			if kind.name == "maps" {
				set := &nftables.Set{
					Table: table, Name: "slots", IsMap: true, KeyType: nftables.TypeIFIndex, DataType: nftables.TypeIPAddr,
				}
				if err := c.AddSet(set, nil); err != nil {
					return fmt.Errorf("make a map: %w", err)
				}
				exprs = append(exprs, &expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: set.Name, SetID: set.ID})
			}
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
			if err := c.Flush(); err != nil {
				return fmt.Errorf("make a rule with %s: %w", kind.name, err)
			}
		}
		return nil
	})
}

type ruleKind struct {
	name  string
	exprs []expr.Any
}

// ruleKinds are rules with each expression that the network driver uses.
func ruleKinds() []ruleKind {
	tcp := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
	}
	return []ruleKind{
		{"maps", []expr.Any{&expr.Meta{Key: expr.MetaKeyIIF, Register: 1}}},
		{"header writes", []expr.Any{
			&expr.Immediate{Register: 1, Data: []byte{10, 88, 0, 2}},
			&expr.Payload{
				OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4,
				CsumType: expr.CsumTypeInet, CsumOffset: 10, CsumFlags: unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR,
			},
		}},
		{"tproxy", append(tcp[:2:2],
			&expr.Immediate{Register: 1, Data: []byte{0x3a, 0x99}},
			&expr.TProxy{Family: unix.AF_INET, TableFamily: unix.AF_INET, RegPort: 1},
		)},
		{"reject", append(tcp[:2:2], &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})},
		{"reject by ICMP", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3}}},
	}
}
