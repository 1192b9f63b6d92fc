// Package guest is the guest agent: the process inside a sandbox that starts and ends processes, keeps their output and
// reads and writes files for the host.
//
// As init of a sandbox it reaps every orphan. Each exec is a group, a cgroup of its own where there are cgroups, so that
// also what left its session is found and killed. Output is kept in bounded rings with offsets, and exit records until
// the host has acknowledged them, so a host that comes back misses nothing. The package brings up no network, knows no
// tenant and trusts its connections: who may connect is decided where it listens. It also runs as an ordinary process,
// for tests, and then reaps only its own children.
//
// What users start can't silence it by size: its descriptors are counted (execs, connections), its memory is bounded (rings,
// records, pages of a directory, frames), and all execs together have a bound of processes, in a cgroup beside its own. Root
// inside may lift that bound, and kill or stop its init: it then loses its own sandbox and nothing else.
//
// Start reading at server.go and session.go, then start.go and execution.go; guest/wire is the protocol.
package guest
