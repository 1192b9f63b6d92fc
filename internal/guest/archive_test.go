package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
	"shoal/internal/guest/wire"
)

func (a *agent) pack(t *testing.T, path string, o core.PackOptions) ([]byte, core.ArchiveReport, error) {
	t.Helper()
	r, err := a.client.Pack(t.Context(), path, o)
	if err != nil {
		return nil, core.ArchiveReport{}, err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	return b, r.Report(), err
}

// TestArchive: a tree goes through the agent and back, larger than any buffer, and its connection serves the next call.
func TestArchive(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	src, dst := t.TempDir(), t.TempDir()
	big := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	if err := errors.Join(
		os.WriteFile(src+"/big", big, 0o640), os.Symlink("big", src+"/link"), os.Mkdir(src+"/d\xff", 0o700),
		unix.Mkfifo(src+"/fifo", 0o600), os.WriteFile(src+"/d\xff/x.log", nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for _, compressed := range []bool{false, true} {
		b, packed, err := a.pack(t, src, core.PackOptions{Gzip: compressed, Exclude: []string{"*.log"}})
		if err != nil || packed.Files != 2 || packed.Directories != 2 || packed.Skipped != 1 || packed.Notes[0].Path != "fifo" {
			t.Fatalf("%+v, %v", packed, err)
		}
		to := fmt.Sprintf("%s/made/%v", dst, compressed)
		got, err := a.client.Unpack(t.Context(), to, core.UnpackOptions{Gzip: compressed, Parents: true}, bytes.NewReader(b))
		if err != nil || got.Files != packed.Files || got.Bytes != packed.Bytes {
			t.Fatalf("%+v, %v", got, err)
		}
		if copied, err := os.ReadFile(to + "/link"); err != nil || !bytes.Equal(copied, big) {
			t.Errorf("%d bytes, %v", len(copied), err)
		}
		if st, err := os.Stat(to + "/d\xff"); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", st, err)
		}
	}
}

func TestArchiveRefusals(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	good, _, err := a.pack(t, dir, core.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		o    core.UnpackOptions
		body []byte
		want core.Code
	}{
		"nowhere":         {dir + "/no", core.UnpackOptions{}, good, core.CodeNotFound},
		"a file":          {dir + "/file", core.UnpackOptions{Parents: true}, good, core.CodeInvalid},
		"below a file":    {dir + "/file/x", core.UnpackOptions{Parents: true}, good, core.CodeInvalid},
		"no such user":    {dir, core.UnpackOptions{User: "nobody-by-this-name"}, good, core.CodeInvalid},
		"two owners":      {dir, core.UnpackOptions{User: "0", KeepOwners: true}, good, core.CodeInvalid},
		"no archive":      {dir, core.UnpackOptions{}, bytes.Repeat([]byte("text"), 1<<20), core.CodeInvalid},
		"cut":             {dir, core.UnpackOptions{}, good[:512], core.CodeInvalid},
		"not compressed":  {dir, core.UnpackOptions{Gzip: true}, good, core.CodeInvalid},
		"nothing":         {dir, core.UnpackOptions{}, nil, core.CodeInvalid},
		"nothing, packed": {dir, core.UnpackOptions{Gzip: true}, nil, core.CodeInvalid},
	} {
		if _, err := a.client.Unpack(t.Context(), c.path, c.o, bytes.NewReader(c.body)); !core.IsCode(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	for path, want := range map[string]core.Code{dir + "/no": core.CodeNotFound, "/proc/self": core.CodeInvalid, "": core.CodeInvalid} {
		if _, _, err := a.pack(t, path, core.PackOptions{}); !core.IsCode(err, want) {
			t.Errorf("pack %q: %v, want %s", path, err, want)
		}
	}
	if _, _, err := a.pack(t, dir, core.PackOptions{Exclude: []string{"["}}); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a bad pattern: %v", err)
	}
	// What the archive was refused for is told even if its sender does not stop.
	endless := io.MultiReader(bytes.NewReader(make([]byte, 100)), neverEnding{})
	if _, err := a.client.Unpack(t.Context(), dir, core.UnpackOptions{}, endless); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("an endless body: %v", err)
	}
	if err := a.client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestCutUpload: a body that breaks off, or a host that goes away, leaves no half file.
func TestCutUpload(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	src, dst := t.TempDir(), t.TempDir()
	if err := os.WriteFile(src+"/big", bytes.Repeat([]byte("x"), 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	b, _, err := a.pack(t, src, core.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cut := core.Errorf(core.CodeInvalid, "the body broke off")
	_, err = a.client.Unpack(t.Context(), dst, core.UnpackOptions{}, io.MultiReader(bytes.NewReader(b[:2<<20]), failing{cut}))
	if !errors.Is(err, cut) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	canceling := io.MultiReader(bytes.NewReader(b[:2<<20]), calling(cancel), neverEnding{})
	if _, err := a.client.Unpack(ctx, dst, core.UnpackOptions{}, canceling); !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("%v", err)
	}
	a.srv.Close() // it waits for its connections
	if list, err := os.ReadDir(dst); err != nil || len(list) != 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type calling func()

func (c calling) Read([]byte) (int, error) {
	c()
	return 0, io.EOF
}

// TestBrokenPack: a file that shrinks while it is packed is an error after the data has begun, and the connection can be kept.
func TestBrokenPack(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, bytes.Repeat([]byte("x"), 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := a.client.Pack(t.Context(), name, core.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := io.CopyN(io.Discard, r, 1024); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("%v", err)
	}
}

// TestOlderAgent: one that knows no archives answers unsupported, by name.
func TestOlderAgent(t *testing.T) {
	c := client.New(client.Config{Dial: func(context.Context) (net.Conn, error) {
		host, peer := net.Pipe()
		go func() {
			r, w := wire.NewReader(peer), wire.NewWriter(peer)
			for _, err := r.Next(); err == nil; _, err = r.Next() {
				_ = w.Write(wire.FrameError, []byte(`{"code":"unsupported","message":"the sandbox's guest agent does not know the operation \"pack\""}`))
			}
		}()
		return host, nil
	}})
	t.Cleanup(c.Close)
	if _, err := c.Pack(t.Context(), "/", core.PackOptions{}); !core.IsCode(err, core.CodeUnsupported) {
		t.Errorf("pack: %v", err)
	}
	if _, err := c.Unpack(t.Context(), "/", core.UnpackOptions{}, neverEnding{}); !core.IsCode(err, core.CodeUnsupported) {
		t.Errorf("unpack: %v", err)
	}
}
