package httpserve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"shoal/internal/core"
)

// partSize is how much of a file is moved at a time, and how much is read before its length is told: files of /proc and /sys lie
// about theirs.
const partSize = 64 << 10

// ErrGone says that the client went away.
var ErrGone = errors.New("the client went away")

// Gone marks a reply that could not be sent: the client is gone.
func Gone(err error) error { return fmt.Errorf("write reply: %w: %w", ErrGone, err) }

// SendFile streams a whole file. Its length is told only where it is certain: when the end is already in sight, or the
// file is larger than what /proc and /sys claim of theirs.
func SendFile(w http.ResponseWriter, info core.FileInfo, content io.Reader, stall time.Duration) error {
	buffered := bufio.NewReaderSize(content, partSize)
	head, err := buffered.Peek(partSize)
	switch {
	case errors.Is(err, io.EOF):
		w.Header().Set("Content-Length", strconv.Itoa(len(head)))
	case err != nil:
		return err
	case info.Type == core.FileRegular && info.Size >= partSize:
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
		return Send(w, io.LimitReader(buffered, info.Size), info.Size, stall)
	}
	return Send(w, buffered, -1, stall)
}

// Send copies content to the client, who has the stall time for each part. A length of zero or more that isn't
// reached is an error: the connection must be cut.
func Send(w http.ResponseWriter, content io.Reader, length int64, stall time.Duration) error {
	if !Sent(w) {
		w.WriteHeader(http.StatusOK)
	}
	rc := http.NewResponseController(w)
	buffer := make([]byte, partSize)
	var total int64
	for {
		n, err := content.Read(buffer)
		if n > 0 {
			if err := Extend(rc.SetWriteDeadline, stall); err != nil {
				return err
			}
			if _, err := w.Write(buffer[:n]); err != nil {
				return Gone(err)
			}
			total += int64(n)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if length >= 0 && total != length {
		return core.Errorf(core.CodeConflict, "the file shrank while it was read")
	}
	return nil
}

// Upload is a request's body of which every part must come within the stall time.
type Upload struct {
	body   io.Reader
	extend func(time.Duration) error
	stall  time.Duration
	// Err is why the body ended before its end.
	Err error
}

// NewUpload returns the body of a request.
func NewUpload(w http.ResponseWriter, r *http.Request, stall time.Duration) *Upload {
	rc := http.NewResponseController(w)
	return &Upload{body: r.Body, extend: func(d time.Duration) error { return Extend(rc.SetReadDeadline, d) }, stall: stall}
}

// Read reads the next part.
func (u *Upload) Read(p []byte) (int, error) {
	if err := u.extend(u.stall); err != nil {
		return 0, err
	}
	n, err := u.body.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		// A deadline left standing would end the request's context while the file is being put in place.
		if err := u.extend(0); err != nil {
			return n, err
		}
	case err != nil:
		u.Err = err
	}
	return n, err
}
