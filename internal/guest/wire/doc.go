// Package wire is the protocol between the host and a guest agent: a preamble, length-bounded frames, and the JSON
// messages in them. docs/formats/guest-wire.md describes the bytes and the rules of evolution.
//
// One connection carries one operation at a time and is reused after a clean end, so bulk data never delays control and
// the connection's own flow control is the backpressure. The package starts no goroutine, opens no connection and knows
// neither how a sandbox is reached nor how a process is started: guest/client is one end, guest the other. Everything
// that it parses is hostile. Start reading at frame.go, then message.go.
package wire
