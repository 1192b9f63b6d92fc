package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	shoal "shoal/sdk/go"
)

func (e env) read(t *testing.T, sb shoal.Sandbox, path string) []byte {
	t.Helper()
	r, err := e.Client.Files(sb.ID).Read(ctx(t), path)
	if err != nil {
		t.Fatalf("read %q: %v", path, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %q: %v", path, err)
	}
	return data
}

func (e env) write(t *testing.T, sb shoal.Sandbox, path string, data []byte, o shoal.WriteOptions) {
	t.Helper()
	if _, err := e.Client.Files(sb.ID).Write(ctx(t), path, bytes.NewReader(data), o); err != nil {
		t.Fatalf("write %q: %v", path, err)
	}
}

// Named test 11.
func testProcFiles(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	for path, want := range map[string]string{"/proc/meminfo": "MemTotal", "/proc/self/status": "Name:", "/proc/cpuinfo": "processor"} {
		if got := e.read(t, sb, path); !strings.Contains(string(got), want) {
			t.Errorf("%s is %.80q", path, got)
		}
	}
}

// Named test 12, but for the big files.
func testOddFiles(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	files := e.Client.Files(sb.ID)
	if err := files.Mkdir(ctx(t), "/root/odd/deep", shoal.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
	names := []string{"empty", "with space", "new\nline", strings.Repeat("n", 255), "\xff\xfe not utf-8", "ünï", "-dash", "a%2Fb?c#d", "..."}
	for i, name := range names {
		path := "/root/odd/" + name
		data := bytes.Repeat([]byte{byte(i)}, i*7)
		e.write(t, sb, path, data, shoal.WriteOptions{Mode: 0o640})
		if got := e.read(t, sb, path); !bytes.Equal(got, data) {
			t.Errorf("%q: %d bytes, want %d", name, len(got), len(data))
		}
		info, err := files.Stat(ctx(t), path)
		if err != nil || info.Size != int64(len(data)) || info.Mode != "0640" {
			t.Errorf("%q: %+v %v", name, info, err)
		}
	}
	seen := map[string]bool{}
	for f, err := range files.List(ctx(t), "/root/odd") {
		if err != nil {
			t.Fatal(err)
		}
		seen[f.Name+string(f.NameRaw)] = true
	}
	for _, name := range append(names, "deep") {
		if !seen[name] {
			t.Errorf("%q is not listed", name)
		}
	}
	if len(seen) != len(names)+1 {
		t.Errorf("%d entries listed, want %d", len(seen), len(names)+1)
	}
	if err := files.Move(ctx(t), "/root/odd/empty", "/root/odd/moved"); err != nil {
		t.Error(err)
	}
	_, err := files.Stat(ctx(t), "/root/odd/empty")
	wantCode(t, err, "not_found")
	wantCode(t, files.Remove(ctx(t), "/root/odd", false), "conflict")
	if err := files.Remove(ctx(t), "/root/odd", true); err != nil {
		t.Error(err)
	}
	_, err = files.Stat(ctx(t), "/root/odd")
	wantCode(t, err, "not_found")
	_, err = files.Write(ctx(t), "/root/no/such/dir", strings.NewReader("x"), shoal.WriteOptions{})
	wantCode(t, err, "not_found")
	e.Out(t, sb.ID, "printf x > /root/own && chown 1234:4321 /root/own && chmod 600 /root/own")
	e.write(t, sb, "/root/own", []byte("new"), shoal.WriteOptions{})
	if got := e.Out(t, sb.ID, "stat -c '%u:%g %a' /root/own"); got != "1234:4321 600\n" {
		t.Errorf("owner and mode of a file that was written over: %q", got)
	}
}

func testBigFiles(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	const size = 5 << 30
	e.Out(t, sb.ID, "truncate -s 5G /root/sparse && printf end | dd of=/root/sparse bs=1 seek=5368709117 conv=notrunc 2>/dev/null")
	info, err := e.Client.Files(sb.ID).Stat(ctx(t), "/root/sparse")
	if err != nil || info.Size != size {
		t.Fatalf("%+v %v", info, err)
	}
	r, err := e.Client.Files(sb.ID).ReadRange(ctx(t), "/root/sparse", size-4, 100)
	if err != nil {
		t.Fatal(err)
	}
	tail, err := io.ReadAll(r)
	_ = r.Close()
	if err != nil || string(tail) != "\x00end" {
		t.Errorf("the tail is %q %v", tail, err)
	}
	big := make([]byte, 48<<20+13)
	for i := range big {
		big[i] = byte(i * i >> 3)
	}
	e.write(t, sb, "/root/big", big, shoal.WriteOptions{})
	sum := sha256.Sum256(big)
	if got := e.Out(t, sb.ID, "sha256sum < /root/big"); !strings.HasPrefix(got, hex.EncodeToString(sum[:])) {
		t.Errorf("inside it is %q", got)
	}
	if !bytes.Equal(e.read(t, sb, "/root/big"), big) {
		t.Error("it came back changed")
	}
}

// Named test 14: whatever links the guest plants, the host reads and writes inside.
func testPlantedLinks(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	bait := filepath.Join(e.Dir, "bait")
	if err := os.WriteFile(bait, []byte("secret of the host"), 0o666); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(bait)
	e.Out(t, sb.ID, "mkdir -p /root/l && ln -s "+bait+" /root/l/abs && ln -s ../../../../../../../../../.."+bait+" /root/l/rel && ln -s / /root/l/top && ln -s /proc/1/root/"+bait+" /root/l/proc && ln -s loop /root/l/loop")
	for _, path := range []string{"/root/l/abs", "/root/l/rel", "/root/l/top" + bait, "/root/l/proc", "/root/l/loop", "/../../../../" + bait} {
		r, err := e.Client.Files(sb.ID).Read(ctx(t), path)
		if err == nil {
			data, _ := io.ReadAll(r)
			_ = r.Close()
			if strings.Contains(string(data), "secret") {
				t.Errorf("%s reads the host's file", path)
			}
		}
		_, _ = e.Client.Files(sb.ID).Write(ctx(t), path, strings.NewReader("overwritten"), shoal.WriteOptions{Parents: true})
		_ = e.Client.Files(sb.ID).Remove(ctx(t), path, true)
	}
	if got, err := os.ReadFile(bait); err != nil || string(got) != "secret of the host" {
		t.Errorf("the host's file is %q %v", got, err)
	}
}
