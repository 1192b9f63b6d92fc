package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// OutputHeader returns what stands before the bytes in an output frame.
func OutputHeader(offset int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(offset)) }

// ParseOutput splits an output frame's payload.
func ParseOutput(payload []byte) (offset int64, data []byte, err error) {
	if len(payload) < 8 {
		return 0, nil, fmt.Errorf("%w: output without an offset", ErrMalformed)
	}
	o := binary.BigEndian.Uint64(payload)
	if o > math.MaxInt64/2 {
		return 0, nil, fmt.Errorf("%w: impossible offset", ErrMalformed)
	}
	return int64(o), payload[8:], nil
}

// GapPayload returns the payload of a gap frame.
func GapPayload(offset, missing int64) []byte {
	return binary.BigEndian.AppendUint64(OutputHeader(offset), uint64(missing))
}

// ParseGap reads a gap frame's payload. Missing is positive and Offset+Missing does not overflow.
func ParseGap(payload []byte) (offset, missing int64, err error) {
	if len(payload) != 16 {
		return 0, 0, fmt.Errorf("%w: a gap of %d bytes", ErrMalformed, len(payload))
	}
	o, m := binary.BigEndian.Uint64(payload), binary.BigEndian.Uint64(payload[8:])
	if o > math.MaxInt64/2 || m == 0 || m > math.MaxInt64/2 {
		return 0, 0, fmt.Errorf("%w: impossible gap", ErrMalformed)
	}
	return int64(o), int64(m), nil
}
