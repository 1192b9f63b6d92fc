// Package envd is what E2B's clients speak to inside a sandbox: two Connect services, process.Process and filesystem.Filesystem, and
// plain HTTP for content, signs of life and metrics. It translates them to the use cases on execs and to the guest agent's files, and
// keeps nothing itself.
//
// Where the wire has no word for what is true, an error says it. Output that a client did not read in time ends its stream with data_loss,
// and the process goes on. An exec that is lost ends with unavailable, one whose deadline has passed with deadline_exceeded, and only a
// process that returned zero has exit code 0. Names of files that are not UTF-8 are told with replacement characters. In a form's
// filename %22, %0D and %0A are a quote and the ends of lines, because clients write them so. List tells no environments.
//
// It doesn't know how a request found its sandbox nor who may make it: both come with the request, see WithTarget. Only the rule for
// signed addresses is here, CheckSignature, because it is part of the wire. Start with New, then process.go and filesystem.go.
package envd
