// Package panda speaks PandaStack's wire protocol, so that its official SDKs work against this server with nothing changed but a URL
// and a key. It translates between that vendor's words and the use cases of control, and keeps no state: what PandaStack has and we
// have too is served whole, and everything else is refused with words that name it.
//
// It must not know how anything is done, and it invents no outcome: where the vendor's protocol has no word for what happened, the
// caller gets an error. Start with New and the table in routes.go; docs/dialects/panda.md says what works and what differs.
package panda
