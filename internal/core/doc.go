// Package core holds Shoal's nouns and rules: sandboxes, templates, execs, events, the table of states and
// operations, error codes and the small ports (clock, ids, node, guest) through which services meet.
//
// It must not know how anything is done: it imports the standard library only, and of that nothing that speaks
// HTTP, SQL or starts processes. Start reading at sandbox.go, then state.go.
package core
