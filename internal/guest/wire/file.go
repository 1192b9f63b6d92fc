package wire

import "time"

// What follows is since version 3.

// ChangeRequest changes what there is to know of a file. What is absent stays as it is.
type ChangeRequest struct {
	Path       Bytes         `json:"path"`
	Size       *int64        `json:"size,omitempty"`
	Mode       *uint32       `json:"mode,omitempty"`
	Owner      string        `json:"owner,omitempty"`
	Group      string        `json:"group,omitempty"`
	Xattrs     []XattrChange `json:"xattrs,omitempty"`
	ModifiedAt *time.Time    `json:"modified_at,omitempty"`
	AccessedAt *time.Time    `json:"accessed_at,omitempty"`
	Recursive  bool          `json:"recursive,omitempty"`
	NoFollow   bool          `json:"no_follow,omitempty"`
}

// XattrChange sets an extended attribute, or removes it.
type XattrChange struct {
	Name   Bytes  `json:"name"`
	Value  []byte `json:"value,omitempty"`
	Remove bool   `json:"remove,omitempty"`
}

// XattrsReply holds a file's extended attributes.
type XattrsReply struct {
	Xattrs []Xattr `json:"xattrs"`
}

// Xattr is an extended attribute.
type Xattr struct {
	Name  Bytes  `json:"name"`
	Value []byte `json:"value"`
}

// LinkRequest makes a link.
type LinkRequest struct {
	Path    Bytes  `json:"path"`
	Target  Bytes  `json:"target"`
	Hard    bool   `json:"hard,omitempty"`
	User    string `json:"user,omitempty"`
	Parents bool   `json:"parents,omitempty"`
	Replace bool   `json:"replace,omitempty"`
}

// ChecksumRequest asks for the digest of a file's content.
type ChecksumRequest struct {
	Path      Bytes  `json:"path"`
	Algorithm string `json:"algorithm"`
}

// ChecksumReply is the digest of the bytes that were read.
type ChecksumReply struct {
	File   FileInfo `json:"file"`
	Bytes  int64    `json:"bytes"`
	Digest []byte   `json:"digest"`
}

// WatchRequest follows what happens to files.
type WatchRequest struct {
	Path      Bytes `json:"path"`
	Recursive bool  `json:"recursive,omitempty"`
}

// FileEvents is the payload of a changes frame: at least one event, in the order in which they happened.
type FileEvents struct {
	Events []FileEvent `json:"events"`
}

// FileEvent is one thing that happened. Its kinds are those of core.FileEvent.
type FileEvent struct {
	Kind string `json:"kind"`
	Path Bytes  `json:"path,omitempty"`
	To   Bytes  `json:"to,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
}
