// Package archive makes a tar stream of a tree and a tree of a tar stream, with all that such a stream can keep: links, modes,
// owners, times to the nanosecond, holes, extended attributes of users, names of any bytes. The guest agent uses it inside a
// sandbox and the CLI outside.
//
// Both sides are hostile. Pack bounds what it remembers of a tree; Unpack bounds what it remembers of a stream, never leaves the
// directory that it was given, and takes no stream without an end for a whole one. The package knows no sandbox and no connection.
// Start reading at pack.go and unpack.go.
package archive
