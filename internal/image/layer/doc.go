// Package layer applies the layers of a container image to a root tree, as the OCI image specification says: entries of a tar that
// replace, merge and hide what lower layers left.
//
// Every byte of a layer is hostile. It runs in a jail (package oci starts it), as root of a user namespace in which the tree is all there
// is; and it doesn't rely on that: a name is resolved by the kernel inside the tree and nowhere else (openat2 with RESOLVE_IN_ROOT),
// nothing is written through a link, and sizes, numbers and depths are bounded.
//
// It must not know where layers come from. Start reading at apply.go; whiteout.go has what hides, finish.go what makes an image's tree
// a sandbox's.
package layer
