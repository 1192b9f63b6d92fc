package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether somebody can be asked at f.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// confirmStep is how often a question looks whether it was interrupted, in milliseconds.
const confirmStep = 100

// confirm asks whether to go on, and returns an error unless the answer is yes.
func confirm(ctx context.Context, in *os.File, out io.Writer, warning string) error {
	fmt.Fprintf(out, "%s%s. Go on? [y/N] ", strings.ToUpper(warning[:1]), warning[1:])
	fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, confirmStep)
		if ctx.Err() != nil {
			fmt.Fprintln(out)
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for an answer: %w", err)
		}
		if n > 0 {
			break
		}
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}
