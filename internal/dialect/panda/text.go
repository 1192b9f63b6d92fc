package panda

import (
	"bufio"
	"unicode/utf16"
	"unicode/utf8"
)

// pieceSize is how much output is encoded at a time.
const pieceSize = 32 << 10

const hexDigits = "0123456789abcdef"

// appendText appends data as the inside of a JSON string of ASCII. A byte that is no part of a character becomes U+FFFD: the vendor's
// protocol has only text. Nothing but ASCII is sent because the SDK for Python cuts a stream into lines wherever Unicode has a line
// end, and decodes it by a header's charset.
func appendText(dst, data []byte) []byte {
	for i := 0; i < len(data); {
		c := data[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c >= ' ' && c < 0x7f:
			dst = append(dst, c)
		case c < utf8.RuneSelf:
			dst = appendUnit(dst, rune(c))
		default:
			r, size := utf8.DecodeRune(data[i:])
			if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
				dst = appendUnit(appendUnit(dst, high), low)
			} else {
				dst = appendUnit(dst, r)
			}
			i += size
			continue
		}
		i++
	}
	return dst
}

// appendUnit appends one escape.
func appendUnit(dst []byte, u rune) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// writeText writes data as appendText does, in pieces that end with whole characters. A bufio.Writer keeps its error.
func writeText(out *bufio.Writer, data []byte) {
	var buf []byte
	for len(data) > 0 {
		n := wholePiece(data)
		buf = appendText(buf[:0], data[:n])
		if _, err := out.Write(buf); err != nil {
			return
		}
		data = data[n:]
	}
}

// wholePiece is how much of data, which is not empty, is encoded at a time: it ends with a whole character.
func wholePiece(data []byte) int {
	if len(data) <= pieceSize {
		return len(data)
	}
	return pieceSize - unfinished(data[:pieceSize])
}

// unfinished is how many bytes at the end of data are the beginning of a character: 0 to 3.
func unfinished(data []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		tail := data[len(data)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// cutWhole cuts off the beginning of a character at the end of data that was cut at limit.
func cutWhole(data []byte, limit int) []byte {
	if len(data) < limit {
		return data // this stream was not the one that was cut
	}
	return data[:len(data)-unfinished(data)]
}

// decoder makes text of a stream's pieces: a character that two of them share goes with the second.
type decoder struct{ held []byte }

// next returns what can be shown of the stream with one more piece. It is valid until the next call.
func (d *decoder) next(piece []byte) []byte {
	whole := piece
	if len(d.held) > 0 {
		whole = append(d.held, piece...)
	}
	n := len(whole) - unfinished(whole)
	shown := whole[:n]
	d.held = append(make([]byte, 0, utf8.UTFMax), whole[n:]...)
	return shown
}

// rest returns what was held back at the end of the stream: the beginning of a character that never came.
func (d *decoder) rest() []byte {
	held := d.held
	d.held = nil
	return held
}
