package archive

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"

	"shoal/internal/core"
)

// source remembers what reading failed with, which is no fault of the archive's.
type source struct {
	r   io.Reader
	err error
}

// Read reads on.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF { // Inside another error it means that the source broke off.
		s.err = err
	}
	return n, err
}

// stream is the bytes of an archive. It knows whether they had an end: the standard library takes a stream that breaks off between
// two entries for a whole one.
type stream struct {
	source *source
	r      io.Reader
	// ended says that a block of zeros came where a header belongs.
	ended bool
}

func newStream(r io.Reader, compressed bool) (*stream, error) {
	s := &stream{source: &source{r: r}}
	buffered := bufio.NewReaderSize(s.source, chunk)
	s.r = buffered
	if compressed {
		gz, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, s.fault(err)
		}
		s.r = bufio.NewReaderSize(gz, hole)
	}
	return s, nil
}

// Read reads on. Headers are read by the block, and nothing else is where Unpack looks at ended.
func (s *stream) Read(p []byte) (n int, err error) {
	n, err = s.r.Read(p)
	for len(p) == block && n < block && err == nil {
		var more int
		more, err = s.r.Read(p[n:])
		n += more
	}
	if n > 0 {
		s.ended = len(p) == block && n == block && isZero(p[:n])
	}
	return n, err
}

// fault says what it means that the library could not read on.
func (s *stream) fault(err error) error {
	switch {
	case s.source.err != nil:
		return s.source.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return core.Wrap(core.CodeInvalid, err, "the archive was cut off")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return core.Wrap(core.CodeInvalid, err, "the archive is damaged, or not compressed with gzip")
	}
	return core.Wrap(core.CodeInvalid, err, "the archive is damaged, or no tar archive")
}
