// Package shoal is the Go client of a Shoal server.
//
// A Client reaches one server with one API key. Its parts are named after the API's nouns: Sandboxes, Execs, Files,
// Events, Templates. All calls take a context; every error that the server answered, or that kept the call from reaching
// it, is an *Error, found with errors.As. Calls that may be repeated are repeated when the server says that waiting helps.
//
// It isn't published as a module yet. A module outside of this repository takes it from a checkout:
//
//	go mod edit -replace shoal=/path/to/checkout
//	go mod tidy
//
// It knows the API only by package api and nothing of the server's code. Start reading at client.go.
package shoal
