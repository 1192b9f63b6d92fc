package main

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInheritedFilesAreNotPassedOn(t *testing.T) {
	const number = 57 // as a shell's "exec 57<file" would leave it
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Dup2(int(f.Fd()), number); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(number)
	if err := keepFilesToOurselves(); err != nil {
		t.Fatal(err)
	}
	flags, err := unix.FcntlInt(number, unix.F_GETFD, 0)
	if err != nil {
		t.Fatalf("the inherited file was closed: %v", err)
	}
	if flags&unix.FD_CLOEXEC == 0 {
		t.Error("a program that the server starts would inherit the file")
	}
	for standard := range 3 {
		if flags, err := unix.FcntlInt(uintptr(standard), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			t.Errorf("standard stream %d: flags %#x, %v", standard, flags, err)
		}
	}
}
