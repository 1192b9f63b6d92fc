// Package hostfiles reads the files of a sandbox that doesn't run, from its tree on the host. It implements core.FileReader and
// starts nothing.
//
// Everything in the tree is a guest's doing, and this runs as root in the server. So every path is resolved by the kernel, with
// openat2 and RESOLVE_IN_ROOT: links, absolute ones and those with "..", can't lead out of the tree, magic links and mounts aren't
// crossed. A file is first opened with O_PATH, which has no effect on devices and fifos, then looked at, and only regular files and
// directories are opened to be read, by the descriptor that was looked at and not by name again. What is read is passed on and not
// understood, but for names, which are bounded, and lines of passwd and group. It never writes. Owners are shown as inside. It must
// not be relied on while the sandbox runs: it would then be as safe, but tell of a tree that changes under it.
//
// Start reading at tree.go.
package hostfiles
