package e2e_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
)

const (
	smallFiles = 20_000
	smallDirs  = 200
)

// smallFile is one of many: everything about it follows from its number.
func smallFile(i int) (tar.Header, []byte) {
	content := bytes.Repeat([]byte{byte(i), byte(i >> 8), '\n'}, i%700)
	return tar.Header{
		Typeflag: tar.TypeReg, Format: tar.FormatPAX, Name: fmt.Sprintf("d%03d/sub/file %05d", i%smallDirs, i), Size: int64(len(content)),
		Mode: int64(0o400 + i%0o400), Uid: 1000 + i%7, Gid: 2000 + i%5, ModTime: time.Unix(1_500_000_000+int64(i), int64(i)*1000),
	}, content
}

// Named test: 20,000 small files by tar, up and down, with all that there is to know about each.
func testManySmallFiles(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	files := e.Client.Files(sb.ID)
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		var err error
		for i := range smallFiles {
			h, content := smallFile(i)
			if err = tw.WriteHeader(&h); err != nil {
				break
			}
			if _, err = tw.Write(content); err != nil {
				break
			}
		}
		_ = w.CloseWithError(errors.Join(err, tw.Close()))
	}()
	began := time.Now()
	report, err := files.Unpack(ctx(t), "/root/many", r, shoal.UnpackOptions{KeepOwners: true, Parents: true})
	if err != nil || report.Files != smallFiles || report.Skipped != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	up := time.Since(began)
	if got := e.Out(t, sb.ID, "find /root/many -type f | wc -l; stat -c '%a %u %g %Y %s' '/root/many/d199/sub/file 19999'"); got != "20000\n437 1000 2004 1500019999 1197\n" {
		t.Errorf("inside: %q", got)
	}
	began = time.Now()
	a, err := files.Archive(ctx(t), "/root/many", shoal.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	seen := 0
	for tr := tar.NewReader(a); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		var i int
		if _, err := fmt.Sscanf(h.Name[strings.LastIndex(h.Name, "/")+1:], "file %d", &i); err != nil {
			t.Fatalf("%q: %v", h.Name, err)
		}
		want, content := smallFile(i)
		got, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != want.Name || h.Mode != want.Mode || h.Uid != want.Uid || h.Gid != want.Gid || !h.ModTime.Equal(want.ModTime) || !bytes.Equal(got, content) {
			t.Fatalf("%+v with %d bytes, want %+v with %d", h, len(got), want, len(content))
		}
		seen++
	}
	if _, err := io.Copy(io.Discard, a); err != nil || seen != smallFiles || a.Report().Files != smallFiles {
		t.Errorf("%d files came back, %+v, %v", seen, a.Report(), err)
	}
	t.Logf("%d small files: up in %v, down in %v", smallFiles, up.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// describeTree says all that an archive keeps of a tree below the current directory.
const describeTree = `find . -printf '%p %y %m %U %G %T@ %l\n' | sort; find . -type f ! -name sparse -exec sha256sum {} + | sort`

// testArchiveKinds: whatever a tree is made of goes to another sandbox and is the same there; a large hole costs nothing.
func testArchiveKinds(t *testing.T, e env) {
	a, b := e.Sandbox(t, shoal.CreateSandboxRequest{}), e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, a.ID, `mkdir -p /root/t/d/empty && cd /root/t && echo one >one && ln one d/hard && ln -s ../one d/soft && ln -s /nowhere dangling
		mkfifo fifo && chmod 1777 d/empty && chown 1234:4321 d/hard && chmod 4751 one && chown -h 77:88 dangling
		printf x >"$(printf 'new\nline')" && printf y >"$(printf '\377 raw')" && touch "$(printf '%255s' '' | tr ' ' n)"
		truncate -s 5G sparse && printf end | dd of=sparse bs=1 seek=5368709117 conv=notrunc 2>/dev/null
		touch -d '1999-12-31 23:59:59.123456789' one sparse d && touch -h -d 2001-01-01 dangling`)
	began := time.Now()
	src, err := e.Client.Files(a.ID).Archive(ctx(t), "/root/t", shoal.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	sent := &counting{r: src}
	report, err := e.Client.Files(b.ID).Unpack(ctx(t), "/root/t", sent, shoal.UnpackOptions{KeepOwners: true, Parents: true})
	if err != nil || report.Skipped != 0 || report.Bytes < 5<<30 {
		t.Fatalf("%+v, %v", report, err)
	}
	t.Logf("a tree with a hole of 5 GiB: %d bytes sent in %v", sent.n, time.Since(began).Round(time.Millisecond))
	if r := src.Report(); sent.n > 1<<20 || r.Skipped != 1 || len(r.Notes) != 1 || r.Notes[0].Path != "fifo" {
		t.Errorf("%d bytes were sent, %+v", sent.n, r)
	}
	e.Out(t, a.ID, "cd /root/t && rm fifo && touch -d '@2000000000' .")
	e.Out(t, b.ID, "cd /root/t && touch -d '@2000000000' .")
	want, got := e.Out(t, a.ID, "cd /root/t && "+describeTree), e.Out(t, b.ID, "cd /root/t && "+describeTree)
	if want != got || strings.Count(want, "\n") < 15 {
		t.Errorf("there\n%s\nhere\n%s", want, got)
	}
	if tail := e.Out(t, b.ID, "tail -c 4 /root/t/sparse | od -An -c; du -k /root/t/sparse | cut -f1"); !strings.HasPrefix(tail, "  \\0   e   n   d\n") {
		t.Errorf("%q", tail)
	}
	if same := e.Out(t, b.ID, "cd /root/t && echo more >>one && cat d/hard"); same != "one\nmore\n" {
		t.Errorf("a hard link became a file of its own: %q", same)
	}
	// By default everything belongs to one user.
	src, err = e.Client.Files(a.ID).Archive(ctx(t), "/root/t", shoal.PackOptions{Exclude: []string{"sparse"}, Gzip: true})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if _, err := e.Client.Files(b.ID).Unpack(ctx(t), "/tmp", src, shoal.UnpackOptions{User: "1000:1000", Gzip: true}); err != nil {
		t.Fatal(err)
	}
	if got := e.Out(t, b.ID, "cd /tmp && stat -c '%u:%g %a' . one dangling d/empty; ls sparse 2>/dev/null | wc -l"); got != "0:0 1777\n1000:1000 4751\n1000:1000 777\n1000:1000 1777\n0\n" {
		t.Errorf("owned by one user: %q", got)
	}
}

type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// testArchiveStaysInside: gVisor follows a link to a directory even if it is told not to, so this is asked of a real kernel.
func testArchiveStaysInside(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "mkdir -p /root/outside/sub /root/into; chmod 700 /root/outside/sub")
	for _, via := range []string{"/root/outside", "../outside"} {
		for _, inside := range []tar.Header{
			{Typeflag: tar.TypeReg, Name: "s/evil", Mode: 0o644},
			{Typeflag: tar.TypeDir, Name: "s/sub", Mode: 0o777},
			{Typeflag: tar.TypeReg, Name: "s/new/evil", Mode: 0o644},
			{Typeflag: tar.TypeLink, Name: "taken", Linkname: "s/sub/x"},
		} {
			var b bytes.Buffer
			tw := tar.NewWriter(&b)
			err := errors.Join(tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "s", Linkname: via}), tw.WriteHeader(&inside), tw.Close())
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Client.Files(sb.ID).Unpack(ctx(t), "/root/into", &b, shoal.UnpackOptions{})
			if shoal.ErrorCode(err) != shoal.CodeInvalid {
				t.Errorf("%s through a link to %s: %v", inside.Name, via, err)
			}
		}
	}
	if got := e.Out(t, sb.ID, "cd /root/outside; find . | sort; stat -c %a sub"); got != ".\n./sub\n700\n" {
		t.Errorf("outside: %q", got)
	}
}
