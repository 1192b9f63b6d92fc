package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"io"
	"net/http"
	"strings"

	"shoal/internal/core"
)

const digestHeader = "Content-Digest"

// digested returns a body that fails at its end if it is not what the request's Content-Digest says (RFC 9530), which may come as a
// trailer too. Without one it is the body as it is.
func digested(r *http.Request, body io.Reader) (io.Reader, error) {
	text := r.Header.Get(digestHeader)
	_, later := r.Trailer[digestHeader]
	if text == "" && !later {
		return body, nil
	}
	d := &digestBody{body: body, hash: sha256.New(), trailer: r.Trailer}
	if text != "" {
		var ok bool
		if d.want, ok = parseDigest(text); !ok {
			return nil, badDigest()
		}
	}
	return d, nil
}

func badDigest() error {
	return core.Invalid(digestHeader, "Content-Digest is sha-256=:<base64>:, as RFC 9530 has it")
}

// parseDigest returns the SHA-256 of a digest's header.
func parseDigest(text string) (sum []byte, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if name != "sha-256" || len(value) < 2 || value[0] != ':' || value[len(value)-1] != ':' {
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(value[1 : len(value)-1])
		if err == nil && len(sum) == sha256.Size {
			return sum, true
		}
	}
	return nil, false
}

// digestBody is a body that is summed up as it is read.
type digestBody struct {
	body    io.Reader
	hash    hash.Hash
	want    []byte
	trailer http.Header
	// failed says that the sum was another.
	failed error
}

// Read reads on. The end is only reached if the sum is right, so that what reads it changes nothing.
func (d *digestBody) Read(p []byte) (int, error) {
	if d.failed != nil {
		return 0, d.failed
	}
	n, err := d.body.Read(p)
	_, _ = d.hash.Write(p[:n]) // a hash takes everything
	if err != io.EOF {         // Inside another error it means that the body broke off.
		return n, err
	}
	if text := d.trailer.Get(digestHeader); d.want == nil {
		var ok bool
		if d.want, ok = parseDigest(text); !ok {
			d.failed = badDigest()
			return n, d.failed
		}
	}
	if !bytes.Equal(d.hash.Sum(nil), d.want) {
		d.failed = core.Invalid(digestHeader, "the content is not what its digest says: the file is as it was")
		return n, d.failed
	}
	return n, io.EOF
}
