package core

// ImageSource says which container image a template is to be made from: one in a registry, or one in an uploaded archive.
// Exactly one of Ref and Archive is set.
type ImageSource struct {
	// Ref is an image in a registry, as people write it: "alpine", "ghcr.io/owner/app:1.2" or "host:5000/app@sha256:…". Without a
	// host it is on Docker Hub, without tag and digest it is "latest".
	Ref string
	// Archive is the path on this machine of an upload that the server keeps for us: a tar in the OCI layout or of `docker save`,
	// plain, gzip or zstd. Nothing of a caller's ever names a path.
	Archive string
	// Username and Password are for the registry and this one import; both empty is anonymous. An empty username makes the password a
	// bearer token.
	Username string
	Password Secret
	// Login is asked for the login of Ref's registry, and of no other, if Username and Password are empty; nil is none.
	Login LoginFinder `json:"-"`
	// Platform is "os/architecture" or "os/architecture/variant"; empty is the host's own.
	Platform string
}

// Secret is a value that formatting and encoding never show. Reveal is the only way to it.
type Secret string

// hiddenSecret is what is shown of a secret.
const hiddenSecret = "(hidden)"

// Reveal returns the value itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hiddenSecret
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the value from encoders: one that is to be kept is kept on purpose.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
