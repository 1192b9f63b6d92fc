package obs

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// hidden is what a secret looks like everywhere but in Reveal.
const hidden = "[hidden]"

// Secret holds text that must not be seen: it hides itself from fmt, slog and JSON. The zero value is the empty secret.
//
// The text is behind a pointer because fmt prints unexported fields of a struct without asking their methods: there it
// finds an address.
type Secret struct{ text *string }

// NewSecret returns a secret.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the text. Each call of it is a place to look at in review.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsEmpty reports whether there is nothing to hide.
func (s Secret) IsEmpty() bool { return s.Reveal() == "" }

// Equal compares with a text in a time that does not depend on where they differ.
func (s Secret) Equal(text string) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(text)) == 1
}

// String hides the text.
func (s Secret) String() string { return hidden }

// Format hides the text from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the text from JSON and other encodings, as a value and as a key of a map.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// UnmarshalText takes a secret in.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}
