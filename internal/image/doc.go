// Package image turns a recipe into a root tree: a Debian or Ubuntu base that the host's own package tools unpack into an
// empty directory, and Digest, which describes any tree by one canonical sha256.
//
// Packages' maintainer scripts run while a tree is made. They never run as the host's root: the whole bootstrap happens in
// a jail of its own user, mount, pid, ipc and uts namespaces, whose ids are the range that sandboxes are mapped to. So
// files get their shifted owners as they are written, nothing is chowned afterwards, and nothing outlives a kill. The
// jail shares the host's network, because it downloads.
//
// Trees of container images are made by package oci below, in a jail of the same kind that has no network.
//
// It must not know disks, templates' records or runtimes: it is handed a directory. Start reading at bootstrap.go, then
// jail/jail.go.
package image
