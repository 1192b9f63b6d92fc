package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	tree "shoal/internal/image"
	"shoal/internal/image/layer"
)

// sample is an image with three layers in three compressions.
func sample(tb testing.TB) v1.Image {
	tb.Helper()
	return imageOf(tb, v1.Config{
		Env: []string{"PATH=/bin", "EMPTY=", "A=b=c"}, WorkingDir: "/srv/app", User: "1000:1000", Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve"},
		Labels: map[string]string{"org.example": "x"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}, "53/udp": {}},
	},
		gzipped(tb, file("bin/app", "one"), file("etc/old", "x"), entry{tar.Header{Name: "bin/su", Mode: 0o4755, Uid: 1, Gid: 2}, "su"}),
		zstandard(tb, file("bin/app", "two"), file("etc/.wh.old", "")),
		plain(tb, entry{tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "bin/su"}, ""}),
	)
}

var sampleConfig = core.TemplateConfig{
	User: "1000:1000", Workdir: "/srv/app", Env: map[string]string{"PATH": "/bin", "EMPTY": "", "A": "b=c"},
	Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve"}, Labels: map[string]string{"org.example": "x"}, Ports: []string{"53/udp", "8080/tcp"},
}

func checkSample(t *testing.T, cfg Config, res Result) {
	t.Helper()
	if d := cmp.Diff(sampleConfig, res.Config); d != "" {
		t.Error(d)
	}
	if got := readTree(t, cfg, "bin/app"); got != "two" {
		t.Errorf("bin/app is %q", got)
	}
	if _, err := os.Lstat(filepath.Join(cfg.Dir, "etc/old")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a hidden file: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(cfg.Dir, "hard"), &st); err != nil || st.Mode != unix.S_IFREG|0o4755 || st.Uid != testOwner+1 || st.Gid != testOwner+2 || st.Nlink != 2 {
		t.Errorf("hard link: %+v, %v", st, err)
	}
	for _, dir := range []string{"proc", "sys", "dev", "tmp", "run/shoal", "srv/app"} {
		if err := unix.Lstat(filepath.Join(cfg.Dir, dir), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != testOwner {
			t.Errorf("%s: %+v, %v", dir, st, err)
		}
	}
	noTraces(t, cfg)
}

// TestSources imports one image from everywhere it can come from: the same tree and config each time.
func TestSources(t *testing.T) {
	img := sample(t)
	h := newHub(t)
	ref := h.push(t, "team/app:v1", img)
	index := h.push(t, "team/many:v1", indexOf(t, imageFor(t, v1.Platform{OS: "linux", Architecture: "s390x"}, v1.Config{}), img, imageFor(t, v1.Platform{OS: "unknown", Architecture: "unknown"}, v1.Config{})))
	dir := writeLayout(t, indexOf(t, img))
	archive := tarOf(t, dir)
	tag, err := name.NewTag("team/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := tarball.Write(tag, img, &saved); err != nil {
		t.Fatal(err)
	}
	digest := digestOf(t, img)
	configName, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, tc := range []struct {
		name, source string
		set          func(*Config)
	}{
		{"tag", h.host + "/team/app@" + digest, func(c *Config) { c.Source.Ref = ref }},
		{"digest", h.host + "/team/app@" + digest, func(c *Config) { c.Source.Ref = h.host + "/team/app@" + digest }},
		{"index", h.host + "/team/many@" + digest, func(c *Config) { c.Source.Ref = index }},
		{"layout", "archive " + digest, func(c *Config) { c.Layout = dir }},
		{"layout tar", "archive " + digest, func(c *Config) { c.Source.Archive = upload(t, archive) }},
		{"layout tar.gz", "archive " + digest, func(c *Config) { c.Source.Archive = upload(t, gz(t, archive)) }},
		{"layout tar.zst", "archive " + digest, func(c *Config) { c.Source.Archive = upload(t, zst(t, archive)) }},
		{"docker save", "archive " + configName.String(), func(c *Config) { c.Source.Archive = upload(t, saved.Bytes()) }},
		{"docker save, gzip", "archive " + configName.String(), func(c *Config) { c.Source.Archive = upload(t, gz(t, saved.Bytes())) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := h.configFor(t, "")
			tc.set(&cfg)
			var steps []string
			percent, last := -1, core.OperationProgress{}
			cfg.Progress = func(p core.OperationProgress) {
				if p.Percent < percent || p.Percent > 100 || p.BytesDone < last.BytesDone || p.BytesDone > p.BytesTotal {
					t.Errorf("%+v after %+v", p, last)
				}
				percent, last, steps = p.Percent, p, append(steps, p.Step)
			}
			res := mustImport(t, cfg)
			checkSample(t, cfg, res)
			if res.Source != tc.source {
				t.Errorf("source %q, want %q", res.Source, tc.source)
			}
			if percent != 100 || !strings.Contains(strings.Join(steps, "\n"), "unpacking layer 2 of 3") {
				t.Errorf("progress: %q", steps)
			}
			if last.BytesTotal == 0 || last.BytesDone != last.BytesTotal {
				t.Errorf("at the end %d of %d bytes", last.BytesDone, last.BytesTotal)
			}
			info, err := tree.Digest(t.Context(), cfg.Dir, cfg.OwnerUID)
			if err != nil {
				t.Fatal(err)
			}
			digests[info.Digest] = tc.name
		})
	}
	if len(digests) != 1 {
		t.Errorf("the trees differ: %v", digests)
	}
}

func gz(tb testing.TB, data []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func zst(tb testing.TB, data []byte) []byte {
	tb.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// TestConfigs: what an image says of its processes, and what it must not say.
func TestConfigs(t *testing.T) {
	got, err := templateConfig(&v1.ConfigFile{})
	want := core.TemplateConfig{User: "root", Workdir: "/", Env: map[string]string{"PATH": defaultPath}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if got, err = templateConfig(&v1.ConfigFile{Config: v1.Config{WorkingDir: "app/../../x", User: "web"}}); got.Workdir != "/x" || got.User != "web" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]v1.Config{
		"no value":      {Env: []string{"X"}},
		"no name":       {Env: []string{"=x"}},
		"zero byte":     {Env: []string{"X=a\x00b"}},
		"not UTF-8":     {Cmd: []string{"\xff"}},
		"zero in user":  {User: "a\x00"},
		"large":         {Labels: map[string]string{"x": strings.Repeat("x", maxConfigSum)}},
		"many":          {Cmd: make([]string, maxList+1)},
		"many settings": {Env: strings.Split(strings.Repeat("A=b\n", maxEnv+1), "\n")},
	} {
		if _, err := templateConfig(&v1.ConfigFile{Config: c}); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlatforms: an image that is not for this machine is refused with the platforms that it is for.
func TestPlatforms(t *testing.T) {
	h := newHub(t)
	other := func(arch, variant string) v1.Image {
		return imageFor(t, v1.Platform{OS: "linux", Architecture: arch, Variant: variant}, v1.Config{})
	}
	many := h.push(t, "many:v1", indexOf(t, other("s390x", ""), other("arm", "v7")))
	wantError(t, h.configFor(t, many), core.CodeUnsupported, "it is for linux/arm/v7, linux/s390x")
	wantError(t, h.configFor(t, h.push(t, "one:v1", other("s390x", ""))), core.CodeUnsupported, "the image is for linux/s390x")
	wantError(t, h.configFor(t, h.push(t, "none:v1", indexOf(t))), core.CodeInvalid, "no image in it")
	cfg := h.configFor(t, many)
	cfg.Source.Platform = "linux/s390x"
	wantError(t, cfg, core.CodeUnsupported, "sandboxes on this machine run")
	for _, text := range []string{"linux", "linux/", "/amd64", "a/b/c/d", strings.Repeat("x", 200)} {
		cfg.Source.Platform = text
		wantError(t, cfg, core.CodeInvalid, "a platform is written")
	}
}

// TestBadArchives: whatever an upload is, the answer says what is wrong with it.
func TestBadArchives(t *testing.T) {
	img := sample(t)
	whole := tarOf(t, writeLayout(t, indexOf(t, img)))
	manifest := func(text string) []byte { return packed(t, file("manifest.json", text)) }
	nested := indexOf(t, img)
	for range maxNesting + 1 {
		nested = indexOfIndex(nested)
	}
	var layers []string
	for i := range maxLayers + 1 {
		layers = append(layers, fmt.Sprintf("%q", fmt.Sprint(i)))
	}
	for _, tc := range []struct {
		name, words string
		code        core.Code
		data        []byte
	}{
		{"nothing", "no container image", core.CodeInvalid, nil},
		{"no archive", "no whole tar archive", core.CodeInvalid, []byte(strings.Repeat("text ", 1000))},
		{"another archive", "no container image", core.CodeInvalid, packed(t, file("hello", "x"))},
		{"cut off", "", core.CodeInvalid, whole[:len(whole)/2]},
		{"damaged gzip", "damaged", core.CodeInvalid, gz(t, whole)[:1000]},
		{"xz", "bzip2 or xz", core.CodeUnsupported, []byte("\xfd7zXZ\x00\x00abc")},
		{"index is no JSON", "index can't be read", core.CodeInvalid, packed(t, file("index.json", "{"))},
		{"manifest is no JSON", "manifest.json of the archive can't be read", core.CodeInvalid, manifest("{")},
		{"large index", "at most", core.CodeInvalid, packed(t, file("index.json", strings.Repeat(" ", maxManifest+1)))},
		{"no image", "0 images", core.CodeInvalid, manifest("[]")},
		{"two images", "2 images in the archive (a:1, b:2)", core.CodeInvalid, manifest(`[{"RepoTags":["a:1"]},{"RepoTags":["b:2"]}]`)},
		{"no config", "it lacks c.json", core.CodeInvalid, manifest(`[{"Config":"c.json"}]`)},
		{"config outside", "it lacks ../../etc/passwd", core.CodeInvalid, manifest(`[{"Config":"../../etc/passwd"}]`)},
		{"link outside", "it lacks c", core.CodeInvalid, packed(t, file("manifest.json", `[{"Config":"c"}]`), entry{tar.Header{Name: "c", Typeflag: tar.TypeSymlink, Linkname: "../../../etc/passwd"}, ""})},
		{"link in a circle", "does not end", core.CodeInvalid, packed(t, file("manifest.json", `[{"Config":"c"}]`), entry{tar.Header{Name: "c", Typeflag: tar.TypeSymlink, Linkname: "c"}, ""})},
		{"no layer", "it lacks l", core.CodeInvalid, packed(t, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", `{"rootfs":{"type":"layers","diff_ids":["sha256:`+strings.Repeat("a", 64)+`"]}}`))},
		{"more layers than diff ids", "its config knows 0", core.CodeInvalid, packed(t, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", `{}`))},
		{"many layers", "at most 256", core.CodeInvalid, packed(t, file("manifest.json", `[{"Config":"c","Layers":[`+strings.Join(layers, ",")+`]}]`), file("c", `{}`))},
		{"deep indexes", "more than 3 deep", core.CodeInvalid, tarOf(t, writeLayout(t, nested))},
		{"blob is missing", "it lacks sha256:", core.CodeInvalid, packed(t, file("index.json", `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"sha256:`+strings.Repeat("a", 64)+`"}]}`))},
		{"blob has another size", "is not what its digest says", core.CodeDataLoss, packed(t, file("index.json", `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"sha256:`+strings.Repeat("a", 64)+`"}]}`), file("blobs/sha256/"+strings.Repeat("a", 64), "xx"))},
		{"blob is another", "is not what its digest says", core.CodeDataLoss, packed(t, file("index.json", `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"sha256:`+strings.Repeat("a", 64)+`"}]}`), file("blobs/sha256/"+strings.Repeat("a", 64), "x"))},
		{"another digest", "only sha256", core.CodeUnsupported, packed(t, file("index.json", `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"sha512:`+strings.Repeat("a", 128)+`"}]}`))},
		{"no digest", "index can't be read", core.CodeInvalid, packed(t, file("index.json", `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"../../x"}]}`))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Source.Archive = upload(t, tc.data)
			wantError(t, cfg, tc.code, tc.words)
		})
	}
}

// TestHostileLayers: what the unpacker refuses reaches the caller in its words; nothing is left, and nothing outside was touched.
func TestHostileLayers(t *testing.T) {
	h := newHub(t)
	for name, tc := range map[string]struct {
		layer v1.Layer
		code  core.Code
		words string
	}{
		"upwards": {gzipped(t, file("../../escape", "x")), core.CodeInvalid, "leads upwards"},
		"device":  {gzipped(t, entry{tar.Header{Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8}, ""}), core.CodeInvalid, "device node"},
		"owner":   {gzipped(t, entry{tar.Header{Name: "x", Uid: 1 << 20}, ""}), core.CodeInvalid, "users and groups from 0 to 65535"},
		"link":    {gzipped(t, entry{tar.Header{Name: "p", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, ""}), core.CodeInvalid, "leads nowhere"},
		"diff id": {withDiffID(t, staticLayer("x"), []byte("y")), core.CodeInvalid, "no whole tar"},
		"another": {withDiffID(t, gzipped(t, file("a", "x")), []byte("y")), core.CodeDataLoss, "not what the image says"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, h.configFor(t, h.push(t, "hostile:v1", imageOf(t, v1.Config{}, tc.layer))), tc.code, tc.words)
		})
	}
	if _, err := os.Lstat("/escape"); err == nil {
		t.Error("a file was made outside")
	}
}

// TestWorkdirs: a working directory is made where there is none, and refused where there can't be one.
func TestWorkdirs(t *testing.T) {
	dir := writeLayout(t, indexOf(t, imageOf(t, v1.Config{WorkingDir: "/a/b"}, plain(t, file("x", "")))))
	cfg := newConfig(t)
	cfg.Layout = dir
	mustImport(t, cfg)
	if st, err := os.Stat(filepath.Join(cfg.Dir, "a/b")); err != nil || !st.IsDir() {
		t.Errorf("%v, %v", st, err)
	}
	cfg = newConfig(t)
	cfg.Layout = writeLayout(t, indexOf(t, imageOf(t, v1.Config{WorkingDir: "/x/y"}, plain(t, file("x", "")))))
	wantError(t, cfg, core.CodeInvalid, "WORKDIR")
}

// TestLimits: an image is held to the limits, from its first manifest to its last byte.
func TestLimits(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<16)
	for name, tc := range map[string]struct {
		layers []v1.Layer
		words  string
	}{
		"one layer":       {[]v1.Layer{gzipped(t, file("big", big+big))}, "unpacks to more than 1 MiB"},
		"downloads":       {[]v1.Layer{plain(t, file("big", big))}, "has more than 1 MiB"},
		"layers together": {[]v1.Layer{gzipped(t, file("big", big[1<<18:])), gzipped(t, file("big", big[1<<18:]))}, "unpacks to more than 1 MiB"},
		"files":           {[]v1.Layer{gzipped(t, file("a", ""), file("b", ""), file("c", ""), file("d", ""))}, "more than 3 files"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Limits.Bytes, cfg.Limits.Entries = 1<<20, 3
			cfg.Layout = writeLayout(t, indexOf(t, imageOf(t, v1.Config{}, tc.layers...)))
			wantError(t, cfg, core.CodeInvalid, tc.words)
		})
	}
}

// TestCancel ends an import in the middle of a layer.
func TestCancel(t *testing.T) {
	h := newHub(t)
	l := plain(t, file("big", strings.Repeat("x", 4<<20)))
	ref := h.push(t, "slow:v1", imageOf(t, v1.Config{}, l))
	path := "/v2/slow/blobs/" + digestOf(t, l)
	content := packed(t, file("big", strings.Repeat("x", 4<<20)))
	reached := make(chan struct{})
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:2<<20])
		w.(http.Flusher).Flush()
		close(reached)
		<-r.Context().Done()
		return true
	}
	cfg := h.configFor(t, ref)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := Import(ctx, cfg)
		ended <- err
	}()
	<-reached
	cancel()
	if err := <-ended; !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("got %v", err)
	}
	noTraces(t, cfg)
}

// TestSpoolLeavesSpace: a compressed archive is not unpacked into the space that the server needs.
func TestSpoolLeavesSpace(t *testing.T) {
	t.Parallel()
	archive := gz(t, packed(t, file("index.json", "{}")))
	for free, code := range map[int64]core.Code{1: "", 1 << 60: core.CodeExhausted} {
		spool, err := os.CreateTemp(t.TempDir(), "spool")
		if err != nil {
			t.Fatal(err)
		}
		list, err := makeIndex(bytes.NewReader(archive), spool, layer.Limits{Bytes: 8 << 20, MinFree: free})
		if (err != nil || code != "") && !core.IsCode(err, code) {
			t.Errorf("%d bytes are to stay free: %v, want %s", free, err, code)
		}
		if st, err := spool.Stat(); err != nil || code != "" && st.Size() != 0 || code == "" && !list.Spooled {
			t.Errorf("%d bytes were unpacked, %v", st.Size(), err)
		}
		_ = spool.Close()
	}
}
