// Package embedded carries the guest agent's binary inside the server, so that one file ships.
//
// The binary is built first, into bin/, and is not in the repository. It must know nothing but how to hand it out.
package embedded

import (
	"embed"
	"errors"
)

//go:embed all:bin
var files embed.FS

// Agent returns the guest agent, a static executable. It fails in a program that was built without it.
func Agent() ([]byte, error) {
	data, err := files.ReadFile("bin/shoal-guest")
	if err != nil {
		return nil, errors.New("this program was built without the guest agent: build it with `make build`")
	}
	return data, nil
}
