package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"shoal/internal/core"
)

// Bytes is text that need not be UTF-8, such as a path. In JSON it is a string where it is UTF-8 and otherwise an
// object {"raw": base64}.
type Bytes string

type rawBytes struct {
	Raw *string `json:"raw"`
}

// MarshalJSON writes a string or an object with raw.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(b)) {
		return json.Marshal(string(b))
	}
	raw := base64.StdEncoding.EncodeToString([]byte(b))
	return json.Marshal(rawBytes{&raw})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var r rawBytes
		if err := json.Unmarshal(data, &r); err != nil {
			return err
		}
		if r.Raw == nil {
			return fmt.Errorf("%w: text without raw", ErrMalformed)
		}
		text, err := base64.StdEncoding.DecodeString(*r.Raw)
		if err != nil {
			return fmt.Errorf("%w: raw text: %w", ErrMalformed, err)
		}
		*b = Bytes(text)
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*b = Bytes(s)
	return nil
}

// Encode returns v as JSON. The messages of this package can always be encoded.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	if len(b) > MaxPayload {
		return nil, core.Errorf(core.CodeInvalid, "the request is too large: %d bytes, at most %d are allowed", len(b), MaxPayload)
	}
	return b, nil
}

// DecodeReply reads a reply. Fields that this build doesn't know are left out: the peer may be newer.
func DecodeReply(payload []byte, v any) error {
	if err := json.Unmarshal(payload, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// DecodeRequest reads a request. A field that this build doesn't know is refused by name, so that no option is
// accepted and ignored; the code is unsupported, because a newer host's field is no mistake of the caller's.
func DecodeRequest(payload []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return core.Wrap(core.CodeInvalid, ErrMalformed, "the guest agent was sent more than one value")
	}
	// The library has no type for this error; its text only names the field.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &core.Error{
			Code: core.CodeUnsupported, Field: strings.Trim(name, `"`), Err: err,
			Message: fmt.Sprintf("the sandbox's guest agent does not know the field %s", name),
		}
	}
	return core.Wrap(core.CodeInvalid, err, "the guest agent was sent a malformed request")
}
