// Package diff tells what is different in one tree of files from another: files, installed packages and likely credentials.
//
// Both trees are hostile, and are read only by hostfiles.Scan: every path is resolved inside its tree, no link is followed, nothing but
// regular files and directories is opened. Depth, names, entries, what is read and what is told have bounds; what is beyond them is
// counted, or noted by its path, and never passed over in silence. A tree that is changed meanwhile is no danger, but what is told of it
// may then be of no moment: callers hand in trees at rest.
//
// A file that both have by one inode, and that has not changed since they had one history, is not read. All others are compared byte
// by byte. Renames are not guessed. The package knows nothing of sandboxes, nor of who asks; a credential's value never leaves it: neither in a
// result, nor in an error. Start reading at compare.go, then walk.go; credential and software are parts of their own.
package diff
