// Package btrfs keeps trees as btrfs subvolumes: a clone is one snapshot ioctl, whatever the tree's size.
//
// If the directory that it is given lies on btrfs, the subvolumes are made right there. Otherwise the driver keeps a
// filesystem of its own in an image file (the pool), attached to a loop device and mounted on "mnt" beside it. Every block
// of the image is allocated on the host beforehand and none is ever given back, so that another process that fills the
// host's disk can't cause an I/O error inside: guests see a full disk at worst.
//
// It must not know sandboxes, templates' contents or tenants. Mount and loop device outlive the process on purpose:
// sandboxes run on them while the server restarts, and Open finds them again.
//
// Start reading at open.go (what is made, in which order, and why each step may be cut off), then tree.go.
package btrfs
