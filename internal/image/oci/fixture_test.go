package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	testregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	testlayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"shoal/internal/core"
	"shoal/internal/image/jail"
	"shoal/internal/image/layer"
	"shoal/internal/outbound"
)

// TestMain is also the unpacker: a jail runs this very program.
func TestMain(m *testing.M) {
	runProbe()
	RunFace()
	os.Exit(m.Run())
}

// testOwner is a range that no sandbox of this machine uses.
const testOwner = 1_920_000_000

// needRoot skips a test as an ordinary user, or fails it where root is required. A program with cgo can't give up its rights on all threads.
func needRoot(tb testing.TB) {
	tb.Helper()
	var problem string
	switch {
	case os.Geteuid() != 0:
		problem = "needs root: it makes user and mount namespaces"
	case cgo():
		problem = "needs a program without cgo, as the real one is: set CGO_ENABLED=0"
	default:
		return
	}
	if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
		tb.Fatal(problem)
	}
	tb.Skip(problem)
}

// newConfig returns a config that imports into a new directory, below one that only root may enter.
func newConfig(tb testing.TB) Config {
	tb.Helper()
	needRoot(tb)
	dir := tb.TempDir()
	for _, name := range []string{"tree", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	return Config{
		Dir: filepath.Join(dir, "tree"), WorkDir: filepath.Join(dir, "work"), OwnerUID: testOwner, Logger: slog.New(slog.DiscardHandler),
		Guard:  outbound.New(outbound.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
		Limits: layer.Limits{Bytes: 1 << 30, Entries: 100_000},
		pace:   time.Millisecond,
	}
}

// entry is a file of a layer in a test.
type entry struct {
	tar.Header
	data string
}

func file(name, data string) entry { return entry{tar.Header{Name: name, Mode: 0o644}, data} }

// packed makes a tar.
func packed(tb testing.TB, entries ...entry) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size = int64(len(e.data))
		if e.Typeflag == 0 {
			e.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// gzipped is a layer as most are: the library compresses it.
func gzipped(tb testing.TB, entries ...entry) v1.Layer {
	tb.Helper()
	data := packed(tb, entries...)
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// zstandard is a layer compressed with zstd.
func zstandard(tb testing.TB, entries ...entry) v1.Layer {
	tb.Helper()
	data := packed(tb, entries...)
	w, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return withDiffID(tb, static.NewLayer(w.EncodeAll(data, nil), types.OCILayerZStd), data)
}

// plain is a layer that is not compressed.
func plain(tb testing.TB, entries ...entry) v1.Layer {
	tb.Helper()
	return static.NewLayer(packed(tb, entries...), types.OCIUncompressedLayer)
}

// named is a layer with another diff id.
type named struct {
	v1.Layer
	id v1.Hash
}

func (n named) DiffID() (v1.Hash, error) { return n.id, nil }

func withDiffID(tb testing.TB, l v1.Layer, data []byte) v1.Layer {
	tb.Helper()
	id, _, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	return named{l, id}
}

// imageOf makes an image for this machine.
func imageOf(tb testing.TB, config v1.Config, layers ...v1.Layer) v1.Image {
	tb.Helper()
	return imageFor(tb, v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, config, layers...)
}

func imageFor(tb testing.TB, p v1.Platform, config v1.Config, layers ...v1.Layer) v1.Image {
	tb.Helper()
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		tb.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Variant, c.Config = p.OS, p.Architecture, p.Variant, config
	if img, err = mutate.ConfigFile(img, c); err != nil {
		tb.Fatal(err)
	}
	return img
}

// indexOf makes an index.
func indexOf(tb testing.TB, images ...v1.Image) v1.ImageIndex {
	tb.Helper()
	var list []mutate.IndexAddendum
	for _, img := range images {
		c, err := img.ConfigFile()
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: c.OS, Architecture: c.Architecture, Variant: c.Variant}}})
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), list...)
}

// hub is a registry of a test, and what was asked of it.
type hub struct {
	*httptest.Server
	host string
	// before may answer in place of the registry.
	before func(w http.ResponseWriter, r *http.Request) bool
}

func newHub(tb testing.TB) *hub {
	tb.Helper()
	h := &hub{}
	inner := testregistry.New(testregistry.Logger(slogger()))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.before == nil || !h.before(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	tb.Cleanup(h.Close)
	h.host = h.Listener.Addr().String()
	return h
}

// push puts an image or index into the registry and returns its reference.
func (h *hub) push(tb testing.TB, repo string, what any) string {
	tb.Helper()
	ref, err := name.ParseReference(h.host+"/"+repo, name.Insecure)
	if err != nil {
		tb.Fatal(err)
	}
	switch what := what.(type) {
	case v1.Image:
		err = remote.Write(ref, what)
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, what)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return ref.String()
}

// configFor returns a config that imports a reference from the registry.
func (h *hub) configFor(tb testing.TB, ref string) Config {
	tb.Helper()
	cfg := newConfig(tb)
	cfg.Source.Ref, cfg.PlainHTTP = ref, []string{h.host}
	return cfg
}

func digestOf(tb testing.TB, img interface{ Digest() (v1.Hash, error) }) string {
	tb.Helper()
	d, err := img.Digest()
	if err != nil {
		tb.Fatal(err)
	}
	return d.String()
}

// writeLayout writes an OCI layout to a new directory.
func writeLayout(tb testing.TB, index v1.ImageIndex) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "layout")
	if _, err := testlayout.Write(dir, index); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// tarOf packs a directory as an archive of an OCI layout.
func tarOf(tb testing.TB, dir string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// upload writes an archive where the server would keep it.
func upload(tb testing.TB, data []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "upload")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// mustImport imports and returns the result.
func mustImport(tb testing.TB, cfg Config) Result {
	tb.Helper()
	res, err := Import(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// wantError imports and expects an error of a code with words in it; nobody and nothing may be left.
func wantError(tb testing.TB, cfg Config, code core.Code, words string) {
	tb.Helper()
	_, err := Import(tb.Context(), cfg)
	var own *core.Error
	if !core.IsCode(err, code) || !errors.As(err, &own) || !strings.Contains(own.Message, words) {
		tb.Errorf("got %v\nwant %s: %s", err, code, words)
	}
	noTraces(tb, cfg)
}

// noTraces fails the test if a process or mount of an import is left, or a file beside its tree.
func noTraces(tb testing.TB, cfg Config) {
	tb.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // It has ended.
		}
		for line := range strings.SplitSeq(string(data), "\n") {
			fields := strings.Fields(line)
			if len(fields) > 1 && fields[0] == "Uid:" {
				if uid, _ := strconv.Atoi(fields[1]); uid >= cfg.OwnerUID && uid < cfg.OwnerUID+jail.IDs {
					tb.Errorf("a process is left: %s", name)
				}
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		tb.Fatal(err)
	}
	if strings.Contains(string(mounts), cfg.Dir) {
		tb.Error("a mount is left")
	}
	if entries, err := os.ReadDir(cfg.WorkDir); err != nil || len(entries) > 0 {
		tb.Errorf("left in the work directory: %v, %v", entries, err)
	}
}

func readTree(tb testing.TB, cfg Config, name string) string {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(cfg.Dir, name))
	if err != nil {
		tb.Error(err)
	}
	return string(data)
}

// dialerTo returns a resolver that knows one name, as 127.0.0.1.
type loopbackNames []string

func (l loopbackNames) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	for _, name := range l {
		if name == host {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// staticLayer is a layer of any bytes.
func staticLayer(data string) v1.Layer { return static.NewLayer([]byte(data), types.OCILayer) }

func indexOfIndex(inner v1.ImageIndex) v1.ImageIndex {
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: inner})
}
