package gvisor

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

func TestIsFace(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want bool
	}{
		"nothing":             {nil, false},
		"server":              {[]string{"shoal", "serve"}, false},
		"server by path":      {[]string{"/usr/local/bin/shoal", "boot"}, false},
		"sentry":              {[]string{"runsc-sandbox", "--root=/x", "boot", "--bundle=/b", "id"}, true},
		"sentry without boot": {[]string{"runsc-sandbox"}, false},
		"gofer":               {[]string{"runsc-gofer", "gofer", "id"}, true},
		"unmount helper":      {[]string{"/proc/self/exe", "umount", "--sync-fd=3", "/proc"}, true},
		"self exec":           {[]string{"/proc/self/exe", "serve"}, false},
		"runsc":               {[]string{"runsc", "list"}, true},
		"creator":             {[]string{"shoal-creator"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsFace(c.args); got != c.want {
				t.Errorf("IsFace(%q) = %v", c.args, got)
			}
		})
	}
}

func TestBundleLimits(t *testing.T) {
	cpus := "--cpu-num=" + strconv.Itoa(min(2, hostCPUs()))
	bundle := "--bundle=/mnt/" + bundleName(core.Resources{MemoryBytes: 1 << 20, VCPUs: 0.5})
	for name, c := range map[string]struct{ args, want []string }{
		"memory and processors": {
			[]string{"runsc-sandbox", "boot", bundle, "--total-memory", "4194304", "--total-host-memory", "8388608", "id"},
			[]string{"runsc-sandbox", "boot", cpus, bundle, "--total-memory", "1048576", "--total-host-memory", "1048576", "id"},
		},
		"never above the host": {
			[]string{"runsc-sandbox", "boot", bundle, "--total-memory", "4096", "id"},
			[]string{"runsc-sandbox", "boot", cpus, bundle, "--total-memory", "4096", "id"},
		},
		"another's bundle": {
			[]string{"runsc-sandbox", "boot", "--bundle=/b", "--total-memory", "4096", "id"},
			[]string{"runsc-sandbox", "boot", "--bundle=/b", "--total-memory", "4096", "id"},
		},
		"set already": {
			[]string{"runsc-sandbox", "boot", "--cpu-num", "2", bundle, "id"},
			[]string{"runsc-sandbox", "boot", "--cpu-num", "2", bundle, "id"},
		},
		"no boot": {[]string{"x", bundle}, []string{"x", bundle}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.args)
			if diff := cmp.Diff(c.want, applyBundleLimits(c.args)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, c.args); diff != "" {
				t.Errorf("input changed: %s", diff)
			}
		})
	}
}

func TestModuleVersionIsTheBuilds(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "gvisor.dev/gvisor").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != ModuleVersion {
		t.Errorf("go.mod has gVisor %s, ModuleVersion says %s: judge the bump, then change it", got, ModuleVersion)
	}
}

func TestVersionIsOurs(t *testing.T) {
	if err := checkVersion(); err != nil {
		t.Error(err)
	}
}

// TestOneSpecForAll holds two specs against each other: a restore allows differences in a few fields only.
func TestOneSpecForAll(t *testing.T) {
	a := newSpec(specInput{stage: "/mnt", netNS: "/a", hostname: "a", ownerUID: 1000, ownerIDs: 65536})
	b := newSpec(specInput{stage: "/srv", netNS: "/b", hostname: "b", ownerUID: 1000, ownerIDs: 65536})
	for i := range b.Mounts {
		if a.Mounts[i].Type == "bind" {
			b.Mounts[i].Source = a.Mounts[i].Source
		}
	}
	b.Root.Path, b.Hostname = a.Root.Path, a.Hostname
	last := len(a.Linux.Namespaces) - 1
	b.Linux.Namespaces[last].Path = a.Linux.Namespaces[last].Path
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	if len(a.Process.Env) > 0 || len(a.Process.Rlimits) > 0 || a.Linux.Resources != nil {
		t.Error("environment, limits and resources don't belong into the spec")
	}
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	id := core.SandboxID(core.NewID())
	want := record{ID: id, Incarnation: 3, Container: string(id) + "-x", Digest: "d", Sentry: process{PID: 7, Start: 9}}
	if err := writeRecord(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(dir, id)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	other := core.SandboxID(core.NewID())
	if err := os.Rename(recordPath(dir, id), recordPath(dir, other)); err != nil {
		t.Fatal(err)
	}
	if r, err := readRecord(dir, other); err == nil {
		t.Errorf("a record under another's name was taken: %+v", r)
	}
}

func TestSandboxOfFile(t *testing.T) {
	id := core.NewID()
	for name, want := range map[string]bool{
		id + ".json": true, id + ".json.new": true, id + "-ab_sandbox:" + id + "-ab.state": true,
		"runsc-" + id + "-ab.sock": true, "null-netns": false, "x": false, "runsc-.sock": false,
	} {
		if got, ok := sandboxOfFile(name); ok != want || (ok && string(got) != id) {
			t.Errorf("sandboxOfFile(%q) = %q, %v", name, got, ok)
		}
	}
}

func TestPickStage(t *testing.T) {
	dir := t.TempDir()
	a, b, link := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "link")
	for _, d := range []string{a, b, filepath.Join(a, "data")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(a, "data"), link); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for name, c := range map[string]struct {
		used []string
		want string
	}{
		"first that is there":               {nil, a},
		"not above the data":                {[]string{filepath.Join(a, "data", "x")}, b},
		"not through a link":                {[]string{link}, b},
		"a name's prefix is another folder": {[]string{a + "b/x"}, a},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pickStage([]string{missing, a, b}, c.used)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if got, err := pickStage([]string{missing, a}, []string{a}); err == nil {
		t.Errorf("got %q where no candidate will do", got)
	}
}

func TestInstallProgram(t *testing.T) {
	dir, source := t.TempDir(), filepath.Join(t.TempDir(), "program")
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, program, 0o700); err != nil {
		t.Fatal(err)
	}
	digest, path, err := installProgram(t.Context(), source, dir)
	if err != nil {
		t.Fatal(err)
	}
	if path != filepath.Join(dir, digest, programName) || !digestPattern().MatchString(digest) {
		t.Errorf("path %q, digest %q", path, digest)
	}
	if err := os.WriteFile(source, append(program, "overwritten in place"...), 0o700); err != nil {
		t.Fatal(err)
	}
	wantProgram := func() {
		t.Helper()
		if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, program) {
			t.Errorf("kept copy has %d bytes, %v, want %d", len(text), err, len(program))
		}
	}
	wantProgram()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	// A copy that a crash has cut short is made again.
	if err := errors.Join(os.WriteFile(path, []byte("#"), 0o755), os.WriteFile(source, program, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := installProgram(t.Context(), source, dir); err != nil {
		t.Fatal(err)
	}
	wantProgram()
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
	if err := os.WriteFile(source, []byte("#!/bin/sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := installProgram(t.Context(), source, dir); err == nil {
		t.Error("a script was taken for a program")
	}
}

func TestProgramMustBeStatic(t *testing.T) {
	for name, c := range map[string]struct {
		headers []elf.ProgType
		want    string
	}{
		"static":  {[]elf.ProgType{elf.PT_LOAD}, ""},
		"dynamic": {[]elf.ProgType{elf.PT_LOAD, elf.PT_INTERP}, "CGO_ENABLED=0"},
	} {
		t.Run(name, func(t *testing.T) {
			file := elf.Header64{
				Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
				Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
				Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(c.headers)),
			}
			var text bytes.Buffer
			err := binary.Write(&text, binary.LittleEndian, file)
			for _, kind := range c.headers {
				err = errors.Join(err, binary.Write(&text, binary.LittleEndian, elf.Prog64{Type: uint32(kind)}))
			}
			if err != nil {
				t.Fatal(err)
			}
			path, bin := filepath.Join(t.TempDir(), "program"), t.TempDir()
			if err := os.WriteFile(path, text.Bytes(), 0o755); err != nil {
				t.Fatal(err)
			}
			_, _, err = installProgram(t.Context(), path, bin)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("installProgram: %v, want %q", err, c.want)
			}
		})
	}
}

func TestIsTraced(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tshoal\nTracerPid:\t0\nUid:\t0\n":   false,
		"Name:\tshoal\nTracerPid:\t417\nUid:\t0\n": true,
		"Name:\tshoal\n": false,
	} {
		if got := isTraced([]byte(status)); got != want {
			t.Errorf("isTraced(%q) = %v", status, got)
		}
	}
}
