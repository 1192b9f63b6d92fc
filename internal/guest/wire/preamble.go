package wire

import (
	"encoding/binary"
	"fmt"
)

// Version is the protocol that this build speaks. It rises with every addition; what an older peer doesn't know, it
// refuses by name, so either end may be the older one.
const Version uint16 = 6

const (
	magic        = "SHOALG"
	preambleSize = len(magic) + 2
)

func appendPreamble(b []byte) []byte {
	return binary.BigEndian.AppendUint16(append(b, magic...), Version)
}

func parsePreamble(b []byte) (uint16, error) {
	if string(b[:len(magic)]) != magic {
		return 0, fmt.Errorf("%w: no preamble", ErrMalformed)
	}
	v := binary.BigEndian.Uint16(b[len(magic):])
	if v == 0 {
		return 0, fmt.Errorf("%w: version 0", ErrMalformed)
	}
	return v, nil
}
