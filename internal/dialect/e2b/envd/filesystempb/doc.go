// Package filesystempb is the messages of E2B's filesystem service and the handler that carries them, made from filesystem.proto. It
// must not hold anything that is written by hand but this comment: what the calls do is in envd. Start with filesystem.proto.
package filesystempb
