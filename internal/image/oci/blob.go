package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"shoal/internal/core"
)

const (
	// idleTimeout is how long a download may stand still, blobTries how often in a row it is taken up again where it broke.
	idleTimeout = 60 * time.Second
	blobTries   = 4
)

// blob reads a blob from a registry. A connection that breaks is made again from the byte where it broke: whoever reads has used what came
// before. It does not check what it reads.
type blob struct {
	ctx    context.Context // It lives for one import.
	client *http.Client
	url    string
	size   int64
	at     int64
	body   io.ReadCloser
	cancel context.CancelFunc
	idle   *time.Timer
	broken int
	pace   time.Duration
}

// Read reads on.
func (b *blob) Read(p []byte) (int, error) {
	for {
		if b.at == b.size {
			return 0, io.EOF
		}
		n, err := b.read(p)
		if n > 0 {
			b.at, b.broken = b.at+int64(n), 0
			return n, nil
		}
		if err == nil {
			continue
		}
		b.drop()
		if b.broken++; b.broken >= blobTries || !resumable(b.ctx, err) {
			return 0, err
		}
		select {
		case <-time.After(time.Duration(b.broken) * b.pace):
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
}

// read reads from the connection under way, or a new one.
func (b *blob) read(p []byte) (int, error) {
	if b.body == nil {
		if err := b.open(); err != nil {
			return 0, err
		}
	}
	b.idle.Reset(idleTimeout)
	n, err := b.body.Read(p[:min(int64(len(p)), b.size-b.at)])
	if errors.Is(err, io.EOF) && b.at+int64(n) < b.size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// resumable reports whether a download that broke may be taken up again.
func resumable(ctx context.Context, err error) bool {
	var own *core.Error
	var status *transport.Error
	if ctx.Err() != nil || errors.As(err, &own) && own.Code != core.CodeUnavailable || errors.As(err, &status) && !status.Temporary() {
		return false
	}
	return true
}

// open asks for what is left.
func (b *blob) open() error {
	ctx, cancel := context.WithCancel(b.ctx)
	b.cancel, b.idle = cancel, time.AfterFunc(idleTimeout, cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
	if err != nil {
		return fmt.Errorf("ask for a layer: %w", err)
	}
	if b.at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", b.at))
	}
	resp, err := b.client.Do(req) //nolint:bodyclose // drop closes it.
	if err != nil {
		return fmt.Errorf("ask for a layer: %w", err)
	}
	b.body = resp.Body
	if err := transport.CheckError(resp, http.StatusOK, http.StatusPartialContent); err != nil {
		return fmt.Errorf("ask for a layer: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusOK && b.at > 0:
		// It knows no ranges: what was read is read again.
		for left := b.at; left > 0; {
			b.idle.Reset(idleTimeout)
			n, err := io.CopyN(io.Discard, resp.Body, min(left, 1<<20))
			if left -= n; err != nil {
				return fmt.Errorf("read up to where it broke: %w", err)
			}
		}
	case resp.StatusCode == http.StatusPartialContent && !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", b.at)):
		return core.Errorf(core.CodeUnavailable, "the registry gives another part of a layer than was asked for")
	}
	return nil
}

// drop ends the connection under way.
func (b *blob) drop() {
	if b.body != nil {
		_ = b.body.Close()
	}
	if b.cancel != nil {
		b.idle.Stop()
		b.cancel()
	}
	b.body = nil
}

// Close ends it.
func (b *blob) Close() error {
	b.drop()
	return nil
}

// readVerified reads a whole blob of a size that was checked, and holds it against its digest.
func readVerified(r io.Reader, d v1.Descriptor) ([]byte, error) {
	var all bytes.Buffer
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(&all, h), io.LimitReader(r, d.Size+1))
	if err != nil {
		return nil, fmt.Errorf("read a blob: %w", err)
	}
	if n != d.Size || hex.EncodeToString(h.Sum(nil)) != d.Digest.Hex {
		return nil, mismatch(d.Digest)
	}
	return all.Bytes(), nil
}

// mismatch says that something is not what its digest says.
func mismatch(want v1.Hash) error {
	return core.Errorf(core.CodeDataLoss, "what was read is not what its digest says (%s): it is damaged, or was changed on the way", want)
}
