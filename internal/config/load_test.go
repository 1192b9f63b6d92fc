package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"shoal/internal/core"
)

// write makes a configuration file and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shoal.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

// nowhere stands for a default file that isn't there.
func nowhere(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "none.yaml")
}

func TestDefaults(t *testing.T) {
	got, err := Load(Sources{DefaultFile: nowhere(t)})
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		DataDir: "/var/lib/shoal", Listen: "127.0.0.1:8700",
		E2B: Dialect{Listen: "+1"}, Panda: Dialect{Listen: "+5", Templates: []string{"code-interpreter=base", "ubuntu-24.04=base"}},
		Log: Log{Level: "info", Format: "text"}, TTL: TTL{Default: time.Hour, Max: 24 * time.Hour},
		Sandbox:   Sandbox{VCPUs: 1, Memory: 512 * MiB, MemoryMax: 8 * GiB, Disk: 4 * GiB, PidsMax: 4096, OpenFiles: 32768, OpenFilesMax: 1 << 20, CPUWeight: 100, CPUWeightMax: 100, IOWeight: 100, IOWeightMax: 100},
		Quota:     Quota{Keys: 1000, RequestsPerSecond: 200, Calls: 2000},
		Node:      Node{MaxSandboxes: 1000, MemoryOvercommit: 3, MemoryReserve: 512 * MiB},
		Pool:      Pool{MinHostFree: GiB},
		Runtime:   Runtime{CgroupParent: "shoal", OwnerUID: 1_000_000},
		Templates: Templates{Bootstrap: []string{"minimal", "base"}, MaxImage: 16 * GiB},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); d != "" {
		t.Error(d)
	}
	if got.IsSet("listen") || got.Origin("listen") != "default" {
		t.Errorf("listen comes from %q", got.Origin("listen"))
	}
}

func TestLaterSourcesWin(t *testing.T) {
	path := write(t, "version: 1\nlog:\n  level: debug\n  format: json\nttl:\n  max: 7d\n  default: 2h\ndata_dir: /file\ntemplates:\n  bootstrap: [base]\n")
	got, err := Load(Sources{
		Environ: []string{
			"HOME=/root", "SHOAL_CONFIG=" + path, "SHOAL_LOG_FORMAT=text", "SHOAL_TTL_DEFAULT=3h", "SHOAL_TEMPLATES_BOOTSTRAP=",
			"SHOAL_URL=u", "SHOAL_API_KEY=k", "SHOAL_FAILPOINTS=f", "SHOAL_REQUIRE_ROOT=1",
		},
		Flags: flags(t, "--ttl-default=4h", "--sandbox-memory=1G"),
	})
	if err != nil {
		t.Fatal(err)
	}
	type value struct{ Value, Origin string }
	for key, want := range map[string]value{
		"log.level":           {"debug", "shoal.yaml line 3"},
		"log.format":          {"text", "SHOAL_LOG_FORMAT"},
		"ttl.default":         {"4h", "--ttl-default"},
		"ttl.max":             {"168h", "shoal.yaml line 6"},
		"data_dir":            {"/file", "shoal.yaml line 8"},
		"templates.bootstrap": {"", "SHOAL_TEMPLATES_BOOTSTRAP"},
		"sandbox.memory":      {"1G", "--sandbox-memory"},
		"listen":              {"127.0.0.1:8700", "default"},
	} {
		s, ok := currentSchema().find(key)
		if !ok {
			t.Fatalf("no setting %s", key)
		}
		if d := cmp.Diff(want, value{s.get(got), got.Origin(key)}); d != "" {
			t.Errorf("%s: %s", key, d)
		}
		if got.IsSet(key) == (want.Origin == "default") {
			t.Errorf("%s: IsSet is %v", key, got.IsSet(key))
		}
	}
}

// TestRefused holds each refusal to its words: the place, the key, the value and what is allowed.
func TestRefused(t *testing.T) {
	tests := map[string]struct {
		file    string
		environ []string
		args    []string
		want    string
	}{
		"unknown key":          {file: "version: 1\nlog:\n  leve: info\n", want: "shoal.yaml line 3: unknown key log.leve: did you mean log.level?"},
		"unknown key at top":   {file: "version: 1\nwhatever: 1\n", want: "shoal.yaml line 2: unknown key whatever"},
		"key in wrong section": {file: "version: 1\nlog:\n  data_dir: /x\n", want: "shoal.yaml line 3: unknown key log.data_dir"},
		"dotted key":           {file: "version: 1\n\"a.log\": info\n", want: "shoal.yaml line 2: unknown key a.log"},
		"no version":           {file: "listen: 127.0.0.1:1\n", want: "shoal.yaml line 1: version is missing: begin the file with \"version: 1\""},
		"empty file":           {file: "# nothing\n", want: "shoal.yaml line 1: version is missing: begin the file with \"version: 1\""},
		"other version":        {file: "version: 2\n", want: "shoal.yaml line 1: version is \"2\": this program reads version 1"},
		"set twice":            {file: "version: 1\nlisten: a\nlisten: b\n", want: "line 3: listen is set twice"},
		"not YAML":             {file: "version: 1\n\t- x\n", want: "shoal.yaml: line 2: "},
		"a list":               {file: "- version\n", want: "line 1: the file is not a list of \"key: value\""},
		"two documents":        {file: "version: 1\n---\nversion: 1\n", want: "more than one YAML document"},
		"no value":             {file: "version: 1\nlisten:\n", want: "shoal.yaml line 2: listen has no value"},
		"section as value":     {file: "version: 1\nlog: info\n", want: "shoal.yaml line 2: log is a section"},
		"value as section":     {file: "version: 1\nlisten:\n  port: 1\n", want: "shoal.yaml line 2: listen is not a single value"},
		"not a list":           {file: "version: 1\ntemplates:\n  bootstrap: base\n", want: "shoal.yaml line 3: templates.bootstrap is not a list: allowed is a list of minimal and base"},
		"host with a port":     {environ: []string{"SHOAL_HOSTS=box.example,box.example:80"}, want: "SHOAL_HOSTS: hosts is \"box.example,box.example:80\": allowed is a list of host names"},
		"list of lists":        {file: "version: 1\ntemplates:\n  bootstrap: [[base]]\n", want: "templates.bootstrap holds something else than words"},
		"unknown template":     {file: "version: 1\ntemplates:\n  bootstrap: [full]\n", want: "shoal.yaml line 3: templates.bootstrap is \"full\": allowed is a list of minimal and base"},
		"same template twice":  {environ: []string{"SHOAL_TEMPLATES_BOOTSTRAP=base,base"}, want: "SHOAL_TEMPLATES_BOOTSTRAP: templates.bootstrap is \"base,base\""},
		"unknown variable":     {environ: []string{"SHOAL_LISTE=x"}, want: "environment: unknown variable SHOAL_LISTE: did you mean SHOAL_LISTEN?"},
		"odd variable":         {environ: []string{"SHOAL_XYZZY=x"}, want: "environment: unknown variable SHOAL_XYZZY"},
		"bad level":            {environ: []string{"SHOAL_LOG_LEVEL=loud"}, want: "SHOAL_LOG_LEVEL: log.level is \"loud\": allowed is debug, info, warn or error"},
		"bad duration":         {args: []string{"--ttl-max=7"}, want: "--ttl-max: ttl.max is \"7\": allowed is a duration such as 90s, 1h30m or 7d, at least 1s"},
		"negative duration":    {args: []string{"--ttl-max=-7h"}, want: "ttl.max is \"-7h\""},
		"bad size":             {args: []string{"--sandbox-memory=512MB"}, want: "--sandbox-memory: sandbox.memory is \"512MB\": allowed is a size such as 512M or 4G"},
		"small memory":         {args: []string{"--sandbox-memory=1M"}, want: "sandbox.memory is \"1M\""},
		"NaN":                  {args: []string{"--node-memory-overcommit=NaN"}, want: "node.memory_overcommit is \"NaN\""},
		"no number":            {args: []string{"--node-max-sandboxes=many"}, want: "node.max_sandboxes is \"many\": allowed is a whole number from 1 to 100000"},
		"cgroup outside":       {args: []string{"--runtime-cgroup-parent=../x"}, want: "runtime.cgroup_parent is \"../x\""},
		"host's users":         {args: []string{"--runtime-owner-uid=0"}, want: "runtime.owner_uid is \"0\""},
		"mirror":               {args: []string{"--templates-mirror=ftp://u:secret@h/"}, want: "templates.mirror is \"ftp://u:xxxxx@h/\""},
		"default above max":    {args: []string{"--ttl-default=2d"}, want: "--ttl-default: ttl.default is 48h: allowed is at most ttl.max, which is 24h"},
		"memory above max":     {args: []string{"--sandbox-memory-max=256M"}, want: "sandbox.memory is 512M: allowed is at most sandbox.memory_max, which is 256M"},
		"vcpus above max":      {args: []string{"--sandbox-vcpus=3", "--sandbox-vcpus-max=2"}, want: "sandbox.vcpus is 3: allowed is at most sandbox.vcpus_max, which is 2"},
		"open without TLS":     {args: []string{"--listen=0.0.0.0:8700"}, want: "--listen: listen is \"0.0.0.0:8700\", which other machines can reach"},
		"any host without TLS": {args: []string{"--listen=:8700"}, want: "listen is \":8700\", which other machines can reach"},
		"name without TLS":     {args: []string{"--listen=example.org:8700"}, want: "which other machines can reach"},
		"half of TLS":          {args: []string{"--tls-cert=/c"}, want: "--tls-cert: tls_cert is set and tls_key is not"},
		"no port":              {args: []string{"--listen=127.0.0.1"}, want: "listen is \"127.0.0.1\": allowed is HOST:PORT"},
		"no file":              {environ: []string{"SHOAL_CONFIG=/nonexistent/shoal.yaml"}, want: "/nonexistent/shoal.yaml: there is no such file"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			src := Sources{Environ: tc.environ, DefaultFile: nowhere(t), Flags: flags(t, tc.args...)}
			if tc.file != "" {
				src.DefaultFile = write(t, tc.file)
			}
			_, err := Load(src)
			if !core.IsCode(err, core.CodeInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got  %v\nwant %s", err, tc.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the message shows a password: %v", err)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Load(Sources{
		DefaultFile: write(t, "version: 1\nlog:\n  level: loud\n  colour: red\n"),
		Environ:     []string{"SHOAL_NOPE=1"},
		Flags:       flags(t, "--ttl-max=x"),
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"log.level", "log.colour", "SHOAL_NOPE", "ttl.max"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in %v", want, err)
		}
	}
}

func TestRetiredSettings(t *testing.T) {
	s := currentSchema()
	s.retired = []retiredSetting{{key: "sandbox.ram", instead: "use sandbox.memory", forgetAfter: "2027-11-29"}}
	for _, src := range []Sources{
		{DefaultFile: write(t, "version: 1\nsandbox:\n  ram: 1G\n")},
		{DefaultFile: nowhere(t), Environ: []string{"SHOAL_SANDBOX_RAM=1G"}},
	} {
		_, err := load(s, src)
		if err == nil || !strings.Contains(err.Error(), "no longer a setting: use sandbox.memory") {
			t.Errorf("got %v", err)
		}
	}
}

func TestListenWithTLS(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:443", ":443", "[::]:443"} {
		if _, err := Load(Sources{DefaultFile: nowhere(t), Flags: flags(t, "--listen="+listen, "--tls-cert=/c", "--tls-key=/k")}); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
	for _, listen := range []string{"localhost:0", "127.8.8.8:1", "[::1]:1"} {
		if _, err := Load(Sources{DefaultFile: nowhere(t), Flags: flags(t, "--listen="+listen)}); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

// TestPrintIsAFile holds that what Print writes can be read again and means the same.
func TestPrintIsAFile(t *testing.T) {
	first, err := Load(Sources{DefaultFile: nowhere(t), Flags: flags(t,
		"--data-dir=/a b: #c", "--templates-suite=bookworm", "--templates-bootstrap=", "--sandbox-vcpus=0.5", "--ttl-max=36h10m")})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := first.Print(&out); err != nil {
		t.Fatal(err)
	}
	second, err := Load(Sources{DefaultFile: write(t, out.String())})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if d := cmp.Diff(first, second, cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s\n%s", d, out.String())
	}
	if want := "# --templates-suite"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
}

func TestPrintHidesPasswords(t *testing.T) {
	c, err := Load(Sources{DefaultFile: nowhere(t), Environ: []string{"SHOAL_TEMPLATES_MIRROR=https://me:secret@mirror.example/debian"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Templates.Mirror != "https://me:secret@mirror.example/debian" {
		t.Errorf("the mirror itself was changed: %q", c.Templates.Mirror)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Contains(s, "secret") || !strings.Contains(s, "me:xxxxx@mirror.example") {
		t.Errorf("got\n%s", s)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	plain := write(t, "version: 1\n")
	for name, tc := range map[string]struct {
		config Config
		want   string
	}{
		"directory":    {Config{DataDir: dir}, ""},
		"can be made":  {Config{DataDir: filepath.Join(dir, "new")}, ""},
		"no parent":    {Config{DataDir: filepath.Join(dir, "a", "b", "c")}, ""},
		"a file":       {Config{DataDir: plain}, "not a directory"},
		"under a file": {Config{DataDir: filepath.Join(plain, "x")}, "can't be used"},
		"bad TLS":      {Config{DataDir: dir, TLSCert: plain, TLSKey: plain}, "can't be used"},
	} {
		err := tc.config.Check()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// TestTypedPaths: on the command line a path may be relative, which nowhere else says from where.
func TestTypedPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{DefaultFile: nowhere(t), Flags: flags(t, "--data-dir=data")})
	if err != nil || c.DataDir != filepath.Join(here, "data") {
		t.Errorf("%v, %v", c, err)
	}
	_, err = Load(Sources{DefaultFile: nowhere(t), Environ: []string{"SHOAL_DATA_DIR=data"}})
	if err == nil || !strings.Contains(err.Error(), `data_dir is "data": allowed is an absolute path`) {
		t.Errorf("a variable: %v", err)
	}
}
