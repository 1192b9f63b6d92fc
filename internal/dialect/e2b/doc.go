// Package e2b speaks E2B's protocol, so that its SDKs and CLI work on this server unchanged. It has two sides on one listener: the
// control plane, which makes and ends sandboxes, and the inside of each sandbox, of which this package does the routing and the
// access tokens; what is answered there is package envd below.
//
// It keeps no state, knows no driver, and translates only what the core can do: anything else is refused with words in E2B's own
// form. Start with New, then place.go, which decides which side a request is for.
package e2b
