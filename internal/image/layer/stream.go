package layer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"shoal/internal/core"
)

// chunk is how much is unpacked at a time, chunks how many there are on the way.
const (
	chunk  = 1 << 20
	chunks = 4
)

// stream is a layer's plain bytes. Unpacking, hashing and reading go on side by side.
type stream struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	// toRead and toHash have the same pieces, free takes them back once both are done with them.
	toRead, toHash chan *piece
	free           chan *piece
	now            *piece
	rest           []byte
	err            error
	sum            [sha256.Size]byte
}

// piece is some bytes, or the end.
type piece struct {
	buf  []byte
	n    int
	err  error
	uses sync.WaitGroup
}

// openStream unpacks r, which may become at most limit bytes, and beyond free of them only ratio times its size.
func openStream(ctx context.Context, r io.Reader, limit, free int64) (*stream, error) {
	in := &counter{r: r}
	plain, err := Decompress(in)
	if err != nil {
		return nil, err
	}
	s := &stream{toRead: make(chan *piece, chunks), toHash: make(chan *piece, chunks), free: make(chan *piece, chunks)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	for range chunks {
		s.free <- &piece{buf: make([]byte, chunk)}
	}
	s.work.Go(func() {
		defer plain.Close()
		s.unpack(&bound{r: plain, in: in, limit: limit, free: free})
	})
	s.work.Go(s.hash)
	return s, nil
}

// unpack fills pieces until the end.
func (s *stream) unpack(r io.Reader) {
	defer close(s.toRead)
	defer close(s.toHash)
	for {
		var p *piece
		select {
		case p = <-s.free:
		case <-s.ctx.Done():
			return
		}
		p.n, p.err = io.ReadFull(r, p.buf)
		if errors.Is(p.err, io.ErrUnexpectedEOF) && p.n > 0 {
			p.err = io.EOF
		}
		ended := p.err != nil
		p.uses.Add(2)
		s.toHash <- p
		s.toRead <- p
		if ended {
			return
		}
	}
}

func (s *stream) hash() {
	h := sha256.New()
	for p := range s.toHash {
		h.Write(p.buf[:p.n])
		p.uses.Done()
	}
	h.Sum(s.sum[:0])
}

// Read reads plain bytes.
func (s *stream) Read(buf []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	n := copy(buf, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next takes the next piece.
func (s *stream) next() {
	if s.now != nil {
		s.now.uses.Done()
		s.now.uses.Wait()
		s.free <- s.now
		s.now = nil
	}
	p, ok := <-s.toRead
	if !ok {
		s.err = context.Cause(s.ctx)
		if s.err == nil {
			s.err = io.ErrUnexpectedEOF
		}
		return
	}
	s.now, s.rest, s.err = p, p.buf[:p.n], p.err
}

// finish ends the stream, reading it to its end if that is wanted, and returns its digest, and what was wrong with it.
func (s *stream) finish(toEnd bool) (string, error) {
	if toEnd {
		for s.err == nil {
			s.rest = nil
			s.next()
		}
	}
	s.cancel()
	if s.now != nil {
		s.now.uses.Done()
	}
	for p := range s.toRead {
		p.uses.Done()
	}
	s.work.Wait()
	if s.err != nil && !errors.Is(s.err, io.EOF) {
		return "", s.err
	}
	return digestOf(s.sum), nil
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(buf []byte) (int, error) {
	n, err := c.r.Read(buf)
	c.n += int64(n)
	return n, err
}

// bound ends a stream that becomes too long, by itself or for its compressed size.
type bound struct {
	r     io.Reader
	in    *counter
	limit int64
	free  int64
	out   int64
}

func (b *bound) Read(buf []byte) (int, error) {
	n, err := b.r.Read(buf)
	b.out += int64(n)
	switch {
	case b.out > b.limit:
		return 0, tooLarge(b.limit)
	case b.out > b.free && (b.out-b.free)/ratio > b.in.n:
		return 0, refuse("a layer unpacks to more than %d times its size", ratio)
	case err != nil && !errors.Is(err, io.EOF):
		var own *core.Error
		if errors.As(err, &own) {
			return n, err
		}
		return n, core.Wrap(core.CodeInvalid, err, "a layer can't be unpacked: its compression is damaged")
	}
	return n, err
}

// The first bytes of what a layer may be compressed with.
var (
	magicGzip  = []byte{0x1f, 0x8b}
	magicZstd  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	magicBzip2 = []byte("BZh")
	magicXz    = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
)

// Decompress returns the plain bytes of a stream by what it begins with: gzip, zstd or neither. Memory is bounded whatever it says.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head, err := in.Peek(len(magicXz))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, core.Wrap(core.CodeInvalid, err, "a layer can't be unpacked: its compression is damaged")
		}
		return z, nil
	case bytes.HasPrefix(head, magicZstd):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, core.Wrap(core.CodeInvalid, err, "a layer can't be unpacked: its compression is damaged")
		}
		return z.IOReadCloser(), nil
	case bytes.HasPrefix(head, magicBzip2), bytes.HasPrefix(head, magicXz):
		return nil, core.Errorf(core.CodeUnsupported, "a layer is compressed with bzip2 or xz: only gzip and zstd can be unpacked")
	}
	return asItIs{in}, nil
}

// IsCompressed reports whether what Decompress returned was compressed.
func IsCompressed(plain io.Reader) bool {
	_, ok := plain.(asItIs)
	return !ok
}

// asItIs is a stream that needs no unpacking.
type asItIs struct{ io.Reader }

// Close has nothing to do.
func (asItIs) Close() error { return nil }
