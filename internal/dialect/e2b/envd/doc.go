// Package envd is what E2B's clients speak to inside a sandbox: two Connect services, process.Process and filesystem.Filesystem, and
// plain HTTP for content, signs of life and metrics. It translates them to the use cases on execs and to the guest agent's files, and
// keeps nothing itself.
//
// It doesn't know how a request found its sandbox nor who may make it: both come with the request, see WithTarget. Only the rule for
// signed addresses is here, CheckSignature, because it is part of the wire. Start with New, then process.go and filesystem.go.
package envd
