package panda

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"shoal/internal/httpserve"
	"shoal/internal/httpserve/jsonbody"
)

// maxBody bounds a JSON request: a command of the greatest length that control takes, escaped.
const maxBody = 2 << 20

// decodeBody reads a JSON body into out, a pointer to a struct. The SDKs send calls without arguments with an empty body and a content
// type of text, so neither is held against them; an unknown field is refused by name.
func decodeBody(w http.ResponseWriter, r *request, out any) error {
	data, err := httpserve.ReadBody(w, r.Request, maxBody, httpserve.BodyTimeout)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return jsonbody.Decode(data, out, jsonbody.Options{NullIsAbsent: true})
}

// writeJSON sends a reply.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := encodeJSON(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(data); err != nil {
		return httpserve.Gone(err)
	}
	return nil
}

// encodeJSON returns v as one line of JSON. HTML is not escaped: nobody serves this as a page.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	return b.Bytes(), nil
}

// list sends a list that is read a page at a time and may be long: what was sent isn't kept. An error of the first page is
// returned with nothing sent. open and close are what stands around the items.
type list struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	open  string
	close string
	begun bool
}

func newList(w http.ResponseWriter, open, end string) *list {
	return &list{w: w, rc: http.NewResponseController(w), open: open, close: end}
}

// add sends one more page of items; last says that it is the last one.
func (l *list) add(items []any, last bool) error {
	var b bytes.Buffer
	before := ","
	if !l.begun {
		l.begun, before = true, l.open
		l.w.Header().Set("Content-Type", "application/json")
		l.w.WriteHeader(http.StatusOK)
		if len(items) == 0 {
			b.WriteString(l.open)
		}
	}
	for _, item := range items {
		data, err := encodeJSON(item)
		if err != nil {
			return err
		}
		b.WriteString(before)
		b.Write(bytes.TrimSuffix(data, []byte("\n")))
		before = ","
	}
	if last {
		b.WriteString(l.close + "\n")
	}
	if err := httpserve.Extend(l.rc.SetWriteDeadline, stall); err != nil {
		return err
	}
	if _, err := l.w.Write(b.Bytes()); err != nil {
		return httpserve.Gone(err)
	}
	return nil
}

// printable makes a caller's text fit to be shown back: UTF-8 and short.
func printable(s string) string {
	const most = 64
	out := []rune(strconv.QuoteToGraphic(s))
	out = out[1 : len(out)-1]
	if len(out) > most {
		return string(out[:most]) + "…"
	}
	return string(out)
}
