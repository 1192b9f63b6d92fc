package gvisor_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	stdruntime "runtime"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/client"
	"shoal/internal/guest/embedded"
	"shoal/internal/guest/wire"
	"shoal/internal/image/layer"
	"shoal/internal/image/oci"
	"shoal/internal/runtime/gvisor"
)

// odd is an image that is unlike a distribution, and what is to happen in its sandboxes.
type odd struct {
	name    string
	config  map[string]any
	entries []tar.Header
	files   map[string]string
	runs    []run
}

type run struct {
	spec core.ExecSpec
	// want is in the output, or in the message of an error of the code.
	want string
	code core.Code
}

func oddImages(program string) []odd {
	app := tar.Header{Name: "app", Mode: 0o755}
	soft := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	cmd := func(user string) core.ExecSpec { return core.ExecSpec{Cmd: []string{"/app"}, User: user} }
	files := func(more ...string) map[string]string {
		m := map[string]string{"app": program}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	return []odd{
		{
			name: "one program and nothing else", entries: []tar.Header{app}, files: files(),
			runs: []run{
				{cmd(""), "0:0 / <nil> " + path + " HOME=/root\n", ""},
				{cmd("1000:50"), "1000:50 / <nil>", ""},
				{core.ExecSpec{Cmd: []string{"app"}}, `"app" is not in PATH`, core.CodeInvalid},
				{core.ExecSpec{Shell: "true"}, "there is no shell in it", core.CodeInvalid},
				{cmd("web"), `no such user: "web"`, core.CodeInvalid},
			},
		}, {
			name: "a numeric user and a directory that is missing", entries: []tar.Header{app}, files: files(),
			config: map[string]any{"User": "1000:1001", "WorkingDir": "/srv/dir", "Env": []string{"PATH=/", "HOME=/somewhere"}},
			runs: []run{
				{core.ExecSpec{Cmd: []string{"app"}}, "1000:1001 /srv/dir <nil> PATH=/ HOME=/somewhere\n", ""},
				{cmd("0"), "0:0 /srv/dir <nil>", ""},
			},
		}, {
			name:    "a named user and group",
			entries: []tar.Header{app, {Name: "etc/passwd", Mode: 0o644}, {Name: "etc/group", Mode: 0o644}, {Name: "home/web", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 33, Gid: 33}},
			files:   files("etc/passwd", "web:x:33:34:Web:/home/web:/bin/false\n", "etc/group", "staff:x:50:\n"),
			config:  map[string]any{"User": "web:staff", "WorkingDir": "/home/web"},
			runs:    []run{{cmd(""), "33:50 /home/web <nil>", ""}, {cmd("web"), "33:34 /home/web <nil>", ""}},
		}, {
			name:    "a user that the image doesn't have",
			entries: []tar.Header{app}, files: files(), config: map[string]any{"User": "web"},
			runs: []run{{cmd(""), `no such user: "web"`, core.CodeInvalid}, {cmd("0:0"), "0:0 /", ""}},
		}, {
			name:    "places that lead elsewhere",
			entries: []tar.Header{app, {Name: "tmp", Mode: 0o644}, soft("proc", "/app"), soft("run", "../../nowhere"), {Name: "system/etc", Typeflag: tar.TypeDir, Mode: 0o755}, soft("etc", "/system/etc"), soft("dev", "/etc"), soft("sys", "sys")},
			files:   files(),
			runs:    []run{{cmd(""), "0:0 / <nil>", ""}},
		}, {
			name:    "an interpreter that is missing",
			entries: []tar.Header{app, {Name: "bin/sh", Mode: 0o755}}, files: files("bin/sh", "#!/lib/ld-nothing.so\n"),
			runs: []run{{core.ExecSpec{Shell: "true"}, "the interpreter of", core.CodeInvalid}, {cmd(""), "0:0 /", ""}},
		},
	}
}

// TestOddImages: images without a shell, without users, with one program, or with links where a sandbox needs directories, start and run
// what is in them.
func TestOddImages(t *testing.T) {
	h := newHost(t)
	defer h.sweep()
	d := h.open()
	defer func() { _ = d.Close() }()
	agent, err := embedded.Agent()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(h.run, "agent")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.run, "agent"), agent, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(h.dir, "whoami"), "./testdata/whoami")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(h.dir, "whoami"))
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range oddImages(string(program)) {
		t.Run(img.name, func(t *testing.T) { h.runImage(t, d, img) })
	}
}

func (h *host) runImage(t *testing.T, d *gvisor.Driver, img odd) {
	t.Helper()
	root, err := os.MkdirTemp(h.dir, "image-") //nolint:usetesting // It must be on the filesystem of the host's directory.
	if err != nil {
		t.Fatal(err)
	}
	res, err := oci.Import(t.Context(), oci.Config{
		Layout: writeOddImage(t, img), Dir: root, OwnerUID: gvisor.DefaultOwnerUID, Limits: layer.Limits{Bytes: 1 << 30, Entries: 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := core.SandboxID(core.NewID())
	spec := h.spec(id)
	spec.RootFS = root
	if err := d.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Kill(context.WithoutCancel(t.Context()), id); err != nil {
			t.Error(err)
		}
	}()
	if err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g := client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) { return d.DialGuest(ctx, id) }})
	defer g.Close()
	configureAgent(t, g, wire.Identity{
		Sandbox: string(id), Incarnation: 1, Hostname: "box", User: res.Config.User, Workdir: res.Config.Workdir, TemplateEnv: res.Config.Env,
	})
	for i, r := range img.runs {
		out, code, err := collect(t, g, core.ExecID("run-"+string(rune('a'+i))), r.spec)
		var own *core.Error
		switch {
		case r.code == "" && (err != nil || code != 0 || !strings.Contains(out, r.want)):
			t.Errorf("%v as %q: %q, exit %d, %v, want %q", r.spec.Cmd, r.spec.User, out, code, err, r.want)
		case r.code != "" && (!core.IsCode(err, r.code) || !errors.As(err, &own) || !strings.Contains(own.Message, r.want)):
			t.Errorf("%v %q as %q: %v, want %s: %s", r.spec.Cmd, r.spec.Shell, r.spec.User, err, r.code, r.want)
		}
	}
}

// configureAgent gives the guest agent its identity once it answers.
func configureAgent(t *testing.T, g *client.Client, id wire.Identity) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		err := g.Configure(t.Context(), id)
		if err == nil {
			return
		}
		if !core.IsCode(err, core.CodeUnavailable) {
			t.Fatal(err)
		}
		select {
		case <-deadline:
			t.Fatalf("the guest agent does not answer: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// collect runs a process to its end.
func collect(t *testing.T, g *client.Client, id core.ExecID, spec core.ExecSpec) (out string, code int, err error) {
	t.Helper()
	s, err := g.Exec(t.Context(), id, spec)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = s.Close() }()
	var all bytes.Buffer
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return all.String(), code, nil
		}
		if err != nil {
			return all.String(), code, err
		}
		all.Write(m.Data)
		if m.Exec != nil && m.Exec.ExitCode != nil {
			code = *m.Exec.ExitCode
		}
	}
}

// writeOddImage writes an OCI layout with one layer.
func writeOddImage(t *testing.T, img odd) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, hdr := range img.entries {
		if hdr.Typeflag == 0 {
			hdr.Typeflag, hdr.Size = tar.TypeReg, int64(len(img.files[hdr.Name]))
		}
		if err := w.WriteHeader(&hdr); err != nil {
			t.Fatal(err)
		}
		if hdr.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, img.files[hdr.Name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(kind string, data []byte) map[string]any {
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		if err := os.WriteFile(filepath.Join(dir, "blobs/sha256", name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + name, "size": len(data)}
	}
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	l := put("layer.v1.tar", b.Bytes())
	c := put("config.v1+json", encode(map[string]any{
		"os": "linux", "architecture": stdruntime.GOARCH, "config": img.config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{l["digest"]}},
	}))
	m := put("manifest.v1+json", encode(map[string]any{"schemaVersion": 2, "config": c, "layers": []any{l}}))
	if err := os.WriteFile(filepath.Join(dir, "index.json"), encode(map[string]any{"schemaVersion": 2, "manifests": []any{m}}), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
