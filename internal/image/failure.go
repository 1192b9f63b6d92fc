package image

import (
	"fmt"
	"strings"

	"shoal/internal/core"
)

// reason is one way to fail.
type reason struct {
	texts   []string
	code    core.Code
	message string
}

// reasons maps what the tools say to what a person can do about it. The first that matches speaks: what comes earlier in
// the list causes what comes later.
func reasons() []reason {
	return []reason{
		{
			[]string{"no space left on device", "disk quota exceeded", "enough free space"},
			core.CodeExhausted, "there is no space left to unpack the packages",
		},
		{
			[]string{"no_pubkey", "expkeysig", "keyexpired", "is not signed", "signatures were invalid", "couldn't be verified"},
			core.CodeUnavailable, "the package mirror's signature can't be checked: is the archive keyring (debian-archive-keyring or ubuntu-keyring) installed and current?",
		},
		{
			[]string{"is not valid yet", "is expired since", "release file expired"},
			core.CodeUnavailable, "the package mirror's release file is out of date or from the future: is this machine's clock right?",
		},
		{
			[]string{"temporary failure resolving", "could not resolve", "temporary failure in name resolution"},
			core.CodeUnavailable, "the package mirror's name can't be resolved: is the network up, or does apt need a proxy?",
		},
		{
			[]string{"could not connect", "unable to connect", "connection timed out", "connection refused", "network is unreachable", "connection failed"},
			core.CodeUnavailable, "the package mirror can't be reached: is the network up, or does apt need a proxy?",
		},
		{
			[]string{"proxy authentication required", "407  "},
			core.CodeUnavailable, "the proxy that apt uses refuses us: its user and password belong in apt's configuration",
		},
		{
			[]string{"unable to locate package", "has no installation candidate"},
			core.CodeUnavailable, "the package mirror lacks a package of the recipe: on Ubuntu the component universe must be enabled",
		},
		{
			[]string{"hash sum mismatch", "file has unexpected size"},
			core.CodeUnavailable, "the package mirror is being updated or a proxy spoils downloads: try again later",
		},
		{
			[]string{"404  not found", "does not have a release file", "403  forbidden"},
			core.CodeUnavailable, "the package mirror doesn't have this release: check apt's sources",
		},
	}
}

// explain turns a tool's failure and its last output into an Error: plain words for all, the output for the operator.
func explain(t tool, err error, output string) error {
	cause := fmt.Errorf("run %s: %w\n%s", t, err, output)
	lower := strings.ToLower(output + "\n" + err.Error())
	for _, reason := range reasons() {
		for _, text := range reason.texts {
			if strings.Contains(lower, text) {
				return core.Wrap(reason.code, cause, "%s", reason.message)
			}
		}
	}
	return core.Wrap(core.CodeInternal, cause, "%s could not make the tree: the server's log has its last words", t)
}
