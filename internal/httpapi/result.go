package httpapi

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"net/http"
	"unicode/utf8"

	"shoal/api"
	"shoal/internal/httpserve"
)

// pieceSize is how much output is encoded at a time.
const pieceSize = 32 << 10

// sendResult sends the end of an exec, with res holding all but its output. That is encoded in pieces as the client reads them:
// a reply whose client is slow holds what was collected, not what JSON makes of it, which can be several times as much.
func sendResult(w http.ResponseWriter, res api.ExecResult, stdout, stderr []byte) error {
	head, err := encodeJSON(res)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(w, min(pieceSize, len(head)+2*(len(stdout)+len(stderr))))
	_, err = out.Write(bytes.TrimSuffix(head, []byte("}\n")))
	if err == nil {
		err = writeOutput(out, "stdout", stdout)
	}
	if err == nil {
		err = writeOutput(out, "stderr", stderr)
	}
	if err == nil {
		_, err = out.WriteString("}\n")
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return httpserve.Gone(err)
	}
	return nil
}

// writeOutput writes one stream as one more field of an object, in the form that api.Text gives it.
func writeOutput(out *bufio.Writer, name string, data []byte) error {
	write := writeBase64
	if api.IsText(data) {
		write = writeEscaped
	} else {
		name += "_raw"
	}
	if _, err := out.WriteString(`,"` + name + `":"`); err != nil {
		return err
	}
	if err := write(out, data); err != nil {
		return err
	}
	return out.WriteByte('"')
}

func writeBase64(out *bufio.Writer, data []byte) error {
	e := base64.NewEncoder(base64.StdEncoding, out)
	if _, err := e.Write(data); err != nil {
		return err
	}
	return e.Close()
}

// writeEscaped writes text as the inside of a JSON string.
func writeEscaped(out *bufio.Writer, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), pieceSize)
		for n < len(data) && !utf8.RuneStart(data[n]) {
			n--
		}
		piece, err := encodeJSON(string(data[:n]))
		if err != nil {
			return err
		}
		data = data[n:]
		if _, err := out.Write(piece[1 : len(piece)-2]); err != nil { // without its quotes and the end of its line
			return err
		}
	}
	return nil
}
