// Package processpb is the messages of E2B's process service and the handler that carries them, made from process.proto. It must not
// hold anything that is written by hand but this comment: what the calls do is in envd. Start with process.proto.
package processpb
