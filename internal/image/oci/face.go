package oci

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"shoal/internal/core"
	"shoal/internal/image/jail"
	"shoal/internal/image/layer"
)

// The face of this program that runs in a jail, and what it is told to be.
const (
	faceName  = "shoal-unpack"
	faceApply = "apply"
	faceIndex = "index"
)

// treeName is where the jail has the tree, below jail.Dir.
const treeName = "tree"

// memory is how much the garbage collector is to keep below. The kernel's bound is in confine.go.
const memory = 512 << 20

// RunFace becomes the face that os.Args asks for and never returns, or returns at once if they ask for none. main calls it early: what
// parses the bytes of strangers is to have nothing else going on.
func RunFace() {
	if len(os.Args) != 2 || os.Args[0] != faceName {
		return
	}
	debug.SetMemoryLimit(memory)
	out, err := runFace(os.Args[1])
	if err != nil {
		out = answer{Failure: failureOf(err)}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(1) //nolint:forbidigo // RunFace is main for its faces.
	}
	os.Exit(0) //nolint:forbidigo // As above.
}

// failureOf is an error as it crosses to the server.
func failureOf(err error) *jailFail {
	var own *core.Error
	if errors.As(err, &own) {
		return &jailFail{Code: own.Code, Message: own.Message, Cause: err.Error()}
	}
	return &jailFail{Code: core.CodeInternal, Cause: err.Error()}
}

func runFace(face string) (answer, error) {
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	first, err := readCommand(in)
	if err != nil || first.Limits == nil {
		return answer{}, fmt.Errorf("read the limits: %w", err)
	}
	switch face {
	case faceIndex:
		// What it reads and writes is open already. It sees no file at all.
		archive, spool := os.NewFile(3, "archive"), os.NewFile(4, "spool")
		if err := confineToNothing(first.Limits.Bytes); err != nil {
			return answer{}, fmt.Errorf("lock the jail: %w", err)
		}
		list, err := makeIndex(archive, spool, *first.Limits)
		return answer{Index: &list}, err
	case faceApply:
		if err := confine(jail.Dir+"/"+treeName, first.Limits.Bytes); err != nil {
			return answer{}, fmt.Errorf("lock the jail: %w", err)
		}
		return applyCommands(in, *first.Limits)
	}
	return answer{}, fmt.Errorf("there is no face %q", face)
}

// applyCommands applies layers to the root until it is told to finish.
func applyCommands(in *bufio.Reader, limits layer.Limits) (out answer, err error) {
	tree, err := layer.Open("/", limits)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	for {
		c, err := readCommand(in)
		switch {
		case err != nil:
			return out, fmt.Errorf("read a command: %w", err)
		case c.Layer != nil:
			// What the server cuts short is an unexpected end, for it sends nothing else afterwards.
			if err := tree.Apply(context.Background(), io.LimitReader(in, c.Layer.Size), c.Layer.DiffID); err != nil {
				return out, err
			}
		case c.Finish != nil:
			out.Written = tree.Bytes()
			return out, tree.Finish(c.Finish.Workdir)
		default:
			return out, errors.New("a command says nothing")
		}
	}
}

// readCommand reads one command.
func readCommand(in io.Reader) (c command, err error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return c, fmt.Errorf("its length: %w", err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > 1<<20 {
		return c, fmt.Errorf("a command of %d bytes", n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(in, data); err != nil {
		return c, fmt.Errorf("its text: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("decode: %w", err)
	}
	return c, nil
}
