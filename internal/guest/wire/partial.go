package wire

import "time"

// What follows is since version 5.

// PartRequest writes a part of a file that comes in parts.
type PartRequest struct {
	Partial string       `json:"partial"`
	Offset  int64        `json:"offset"`
	More    bool         `json:"more,omitempty"`
	SHA256  []byte       `json:"sha256,omitempty"`
	Write   WriteRequest `json:"write"`
}

// PartialRequest names a partial file.
type PartialRequest struct {
	Partial string `json:"partial"`
}

// PartialReply tells how far a file has come. File is there when it is whole.
type PartialReply struct {
	Path      Bytes     `json:"path"`
	Size      int64     `json:"size"`
	SHA256    []byte    `json:"sha256,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	File      *FileInfo `json:"file,omitempty"`
}
