package envd

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"shoal/internal/core"
)

const maxUser = 256

// basicUser returns the user that a call picked by basic authorization, empty if it picked none. The password means nothing.
func basicUser(header http.Header) (string, error) {
	scheme, credentials, _ := strings.Cut(header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", nil // another scheme is for who let the request through
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	if err != nil {
		return "", core.Errorf(core.CodeUnauthenticated, "the Authorization header is malformed: Basic has user and colon in base64")
	}
	name, _, _ := strings.Cut(string(raw), ":")
	return name, checkUser(name)
}

// checkUser refuses what can't be a user's name or number. The colon is ours to say a group with.
func checkUser(name string) error {
	if len(name) > maxUser || !utf8.ValidString(name) || strings.ContainsAny(name, ":\x00") {
		return badUser(name)
	}
	return nil
}

// badUser is what clients are told of a user who doesn't exist.
func badUser(name string) error {
	name = strings.ToValidUTF8(name, "?")
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	return core.Errorf(core.CodeUnauthenticated, "invalid username: '%s'", name)
}
