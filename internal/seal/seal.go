// Package seal encrypts small secrets that are kept in the store, with a key that is kept in a file beside it: whoever has only the store,
// such as a copy of the database, can't read them.
//
// It knows nothing of what is sealed. Start with Open.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"shoal/internal/core"
	"shoal/internal/durable"
)

const (
	// KeyFile is the name that the key's file has by custom.
	KeyFile = "secrets.key"
	// version begins everything that is sealed; behind it are some bytes that tell by which key.
	version  = 1
	keyBytes = 32
	idBytes  = 8
)

// Box seals and opens. It may be used from many goroutines. Durable: the key, in a file of mode 0600 that is made when something is sealed
// for the first time. mu guards aead and id, which are read from it once.
type Box struct {
	path string
	mu   sync.Mutex
	aead cipher.AEAD
	id   [idBytes]byte
}

// New returns a box whose key is kept in a file. Only one process at a time may use it.
func New(path string) *Box { return &Box{path: path} }

// Seal encrypts a secret. It can only be opened with the same bind, which says what it is of: nothing sealed can take the place of another.
func (b *Box) Seal(secret []byte, bind string) ([]byte, error) {
	aead, id, err := b.key(true)
	if err != nil {
		return nil, err
	}
	head := append([]byte{version}, id[:]...)
	return aead.Seal(head, nil, secret, associated(head, bind)), nil //nolint:gosec // This one makes a nonce of its own each time.
}

// Open returns what was sealed. An error is data_loss: the key's file is gone or another, or what was sealed has been changed.
func (b *Box) Open(sealed []byte, bind string) ([]byte, error) {
	aead, id, err := b.key(false)
	if err != nil {
		return nil, err
	}
	if len(sealed) < 1+idBytes || sealed[0] != version {
		return nil, core.Errorf(core.CodeDataLoss, "a kept secret is damaged: keep it anew")
	}
	head := sealed[:1+idBytes]
	if [idBytes]byte(head[1:]) != id {
		return nil, b.gone()
	}
	secret, err := aead.Open(nil, nil, sealed[1+idBytes:], associated(head, bind))
	if err != nil {
		return nil, core.Wrap(core.CodeDataLoss, err, "a kept secret is damaged: keep it anew")
	}
	return secret, nil
}

func associated(head []byte, bind string) []byte { return append(append([]byte{}, head...), bind...) }

func (b *Box) gone() error {
	return core.Wrap(core.CodeDataLoss, fmt.Errorf("%s is not the key that it was sealed with", b.path),
		"the key of a kept secret is gone from the server: keep the secret anew, or have the server's operator put %s back", filepath.Base(b.path))
}

// key reads the key, and makes it if that is wanted and there is none.
func (b *Box) key(makes bool) (cipher.AEAD, [idBytes]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.aead != nil {
		return b.aead, b.id, nil
	}
	raw, err := b.read()
	switch {
	case errors.Is(err, fs.ErrNotExist) && makes:
		raw = make([]byte, keyBytes)
		_, _ = rand.Read(raw) // never fails since Go 1.24
		err = durable.Replace(b.path, []byte(hex.EncodeToString(raw)+"\n"), 0o600)
	case errors.Is(err, fs.ErrNotExist):
		err = b.gone()
	}
	if err != nil {
		return nil, b.id, err
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, b.id, fmt.Errorf("make a cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, b.id, fmt.Errorf("make a cipher: %w", err)
	}
	sum := sha256.Sum256(append([]byte("shoal key id\x00"), raw...))
	b.aead, b.id = aead, [idBytes]byte(sum[:idBytes])
	return b.aead, b.id, nil
}

func (b *Box) read() ([]byte, error) {
	text, err := os.ReadFile(b.path)
	if err != nil {
		return nil, fmt.Errorf("read the key of kept secrets: %w", err)
	}
	if info, err := os.Stat(b.path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, core.Wrap(core.CodeInternal, fmt.Errorf("others may read %s: chmod 600 it; if somebody may have read it, delete it, and have the secrets kept anew", b.path),
			"the server does not use its key of kept secrets: its log says why")
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != keyBytes {
		return nil, core.Wrap(core.CodeInternal, fmt.Errorf("%s is damaged: put it back from a backup, or delete it and have the secrets kept anew", b.path),
			"the server can't use its key of kept secrets: its log says why")
	}
	return raw, nil
}
