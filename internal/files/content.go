package files

import (
	"crypto/md5"  //nolint:gosec // It finds transfers that went wrong; core says what it is no good for.
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"strings"

	"shoal/internal/core"
)

// UserXattrs is how the names begin of those extended attributes that are a user's to set and see. All others belong to a kernel.
const UserXattrs = "user."

// TooManyXattrs says that a file has more attributes than are read.
func TooManyXattrs() error {
	return core.Errorf(core.CodeUnsupported, "the file's attributes come to more than %d KiB: read them inside", core.MaxXattrBytes>>10)
}

// NewHash returns what makes a digest, nil for an algorithm that is unknown here.
func NewHash(a core.ChecksumAlgorithm) hash.Hash {
	switch a {
	case core.ChecksumSHA256:
		return sha256.New()
	case core.ChecksumSHA512:
		return sha512.New()
	case core.ChecksumSHA1:
		return sha1.New() //nolint:gosec // It finds transfers that went wrong; core says what it is no good for.
	case core.ChecksumMD5:
		return md5.New() //nolint:gosec // as above
	}
	return nil
}

// Below returns the names that lead from a root to a path below it; none for an empty path.
func Below(root, name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	rel, ok := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
	if !ok || rel == "" {
		return nil, core.Invalid("after", "not below the path: %s", Quote(name))
	}
	return strings.Split(rel, "/"), nil
}
