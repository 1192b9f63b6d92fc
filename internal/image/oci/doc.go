// Package oci makes a root tree of a container image: one in a registry, or in an archive that was uploaded (the OCI layout in a tar, or
// what `docker save` writes; plain, gzip or zstd).
//
// Two sides. This process speaks to the registry, by a login of the tenant's for this one import and through the guarded dialer, and
// checks every digest. What parses and unpacks bytes of strangers, the tar of an archive and the layers, is a copy of this program in a
// jail (face.go, confine.go): an unprivileged user, without network, that sees nothing but the tree and the stream. What it must not know:
// templates, disks and sandboxes; it is handed a directory. Start reading at import.go.
package oci
