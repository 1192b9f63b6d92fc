package httpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpapi"
	shoal "shoal/sdk/go"
)

// ReadFiles returns the same files as Files does.
func (f *fakeControl) ReadFiles(ctx context.Context, p control.Principal, ref string) (core.FileReader, error) {
	return f.Files(ctx, p, ref)
}

func (f *fakeFiles) Change(_ context.Context, path string, change core.FileChange) (core.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, change)
	if change.Mode != nil {
		f.modes[path] = *change.Mode
	}
	return f.info(path), nil
}

func (f *fakeFiles) Link(_ context.Context, path, target string, o core.LinkOptions) (core.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links = append(f.links, o)
	return core.FileInfo{Name: path[strings.LastIndex(path, "/")+1:], Path: path, Type: core.FileSymlink, Target: target, MTime: epoch}, nil
}

func (f *fakeFiles) Xattrs(context.Context, string) ([]core.Xattr, error) {
	return []core.Xattr{{Name: "user.a", Value: []byte{}}, {Name: "user.b\xff", Value: []byte{0, 255}}}, nil
}

func (f *fakeFiles) Checksum(_ context.Context, path string, algorithm core.ChecksumAlgorithm) (core.Checksum, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if algorithm != core.ChecksumSHA256 {
		return core.Checksum{}, core.Errorf(core.CodeUnsupported, "not here: %s", algorithm)
	}
	sum := sha256.Sum256(f.files[path])
	return core.Checksum{File: f.info(path), Bytes: int64(len(f.files[path])), Digest: sum[:]}, nil
}

func (f *fakeFiles) Walk(_ context.Context, path string, o core.WalkOptions) (list []core.FileInfo, more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(path, "/")+"/")
		if !ok || rest == "" || strings.Count(rest, "/") >= o.Depth || name <= o.After {
			continue
		}
		if len(list) == o.Limit {
			return list, true, nil
		}
		list = append(list, f.info(name))
	}
	return list, false, nil
}

// fakeWatch tells what a test makes happen.
type fakeWatch struct {
	ctx    context.Context
	events chan core.FileEvent
	closed chan struct{}
}

func (f *fakeFiles) Watch(ctx context.Context, path string, o core.WatchOptions) (core.FileWatch, error) {
	if path == "/no" {
		return nil, core.Errorf(core.CodeNotFound, "no such file")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &fakeWatch{ctx: ctx, events: make(chan core.FileEvent), closed: make(chan struct{})}
	if path == "/ends" {
		w.events = make(chan core.FileEvent, 2)
		w.events <- core.FileEvent{Kind: core.FileRenamed, Path: "/ends/\xff", To: "/ends/b"}
		w.events <- core.FileEvent{Kind: core.FileGone, Path: "/ends", Dir: true}
		close(w.events)
	}
	f.watches, f.watched = append(f.watches, w), append(f.watched, o)
	return w, nil
}

func (w *fakeWatch) Recv() (core.FileEvent, error) {
	select {
	case e, ok := <-w.events:
		if !ok {
			return e, io.EOF
		}
		return e, nil
	case <-w.ctx.Done():
		return core.FileEvent{}, core.Errorf(core.CodeCanceled, "the call was canceled")
	case <-w.closed:
		return core.FileEvent{}, core.Errorf(core.CodeUnavailable, "closed")
	}
}

func (w *fakeWatch) Close() error { close(w.closed); return nil }

func ptr[T any](v T) *T { return &v }

// TestClientChangesFiles: what a client says of a file arrives as it was said, whatever its bytes.
func TestClientChangesFiles(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	f, guest := c.Files("x"), fake.files["s000000000000000000001"]
	path := "/f-\xff"
	if _, err := f.Write(t.Context(), path, strings.NewReader("text"), shoal.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	info, err := f.Change(t.Context(), path, shoal.FileChange{
		Size: ptr[int64](0), Mode: ptr[uint32](0), Owner: "user", Group: "7", ModifiedAt: &at, AccessedAt: &at,
		SetXattrs: map[string][]byte{"user.x\xff": {0, 255}}, RemoveXattrs: []string{"user.y"}, NoFollow: true,
	})
	if err != nil || info.Mode != "0000" || info.PathBytes() != path {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := f.Change(t.Context(), path, shoal.FileChange{Owner: "0", Recursive: true}); err != nil {
		t.Error(err)
	}
	want := []core.FileChange{{
		Size: ptr[int64](0), Mode: ptr[uint32](0), Owner: "user", Group: "7", ModifiedAt: &at, AccessedAt: &at, NoFollow: true,
		Xattrs: []core.XattrChange{{Name: "user.y", Remove: true}, {Name: "user.x\xff", Value: []byte{0, 255}}},
	}, {Owner: "0", Recursive: true}}
	if diff := cmp.Diff(want, guest.changes); diff != "" {
		t.Error(diff)
	}
	_, err = f.Change(t.Context(), path, shoal.FileChange{Mode: ptr[uint32](0o10000)})
	wantCode(t, err, shoal.CodeInvalid)

	attrs, err := f.Xattrs(t.Context(), path)
	if diff := cmp.Diff(map[string][]byte{"user.a": {}, "user.b\xff": {0, 255}}, attrs); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if info, err := f.Stat(t.Context(), path); err != nil || info.Xattrs != nil {
		t.Errorf("attributes that nobody asked for: %+v, %v", info, err)
	}
	info, err = f.Link(t.Context(), "/l-\xff", "to-\xfe", shoal.LinkOptions{Replace: true, User: "user", Parents: true})
	if err != nil || info.PathBytes() != "/l-\xff" || info.TargetBytes() != "to-\xfe" {
		t.Errorf("%+v, %v", info, err)
	}
	if diff := cmp.Diff([]core.LinkOptions{{Replace: true, User: "user", Parents: true}}, guest.links); diff != "" {
		t.Error(diff)
	}
	_, err = f.Link(t.Context(), "/l", "relative", shoal.LinkOptions{Hard: true})
	if e := wantCode(t, err, shoal.CodeInvalid); e.Field != "target" {
		t.Errorf("%+v", e)
	}
	sum, err := f.Checksum(t.Context(), path, "")
	text := sha256.Sum256([]byte("text"))
	if err != nil || sum.Digest != hex.EncodeToString(text[:]) || sum.Bytes != 4 || sum.Algorithm != "sha256" || sum.File.PathBytes() != path {
		t.Errorf("%+v, %v", sum, err)
	}
	_, err = f.Checksum(t.Context(), path, "sha512")
	wantCode(t, err, shoal.CodeUnsupported)
	_, err = f.Checksum(t.Context(), path, "crc32")
	wantCode(t, err, shoal.CodeInvalid)
	if _, err := f.Write(t.Context(), path, strings.NewReader("x"), shoal.WriteOptions{Append: true}); err != nil {
		t.Error(err)
	}
	if !guest.appended {
		t.Error("append was not passed on")
	}
}

// TestClientWalks: levels come in pages that fit together, by names in their bytes.
func TestClientWalks(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	guest := fake.files["s000000000000000000001"]
	want := []string{}
	for i := range 230 {
		name := "/d/" + strings.Repeat("\xff", i+1)
		want = append(want, name)
		guest.files[name] = []byte("x")
		guest.files[name+"/too/deep"] = []byte("x")
	}
	got := []string{}
	for info, err := range c.Files("x").Walk(t.Context(), "/d", 2) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.PathBytes())
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestClientWatches: a watch tells everything, says that it lives while nothing happens, and ends with its directory or its client.
func TestClientWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, fake := servePipes(t, nil)
		create(t, c, "x")
		f, guest := c.Files("x"), fake.files["s000000000000000000001"]
		_, err := f.Watch(t.Context(), "/no", true)
		wantCode(t, err, shoal.CodeNotFound)
		w, err := f.Watch(t.Context(), "/d", true)
		if err != nil {
			t.Fatal(err)
		}
		if !guest.watched[0].Recursive {
			t.Error("recursive was not passed on")
		}
		list := []core.FileEvent{
			{Kind: core.FileRenamed, Path: "/d/\xff", To: "/d/\xfe", Dir: true}, {Kind: core.FileOverflow, Path: "/d"}, {Kind: core.FileGone, Path: "/d", Dir: true},
		}
		go func() {
			<-time.After(10 * time.Minute)
			for _, e := range list {
				guest.watches[0].events <- e
			}
			close(guest.watches[0].events)
		}()
		for _, e := range list {
			got, err := w.Recv()
			if err != nil || got.Type != api.WatchMessageType(e.Kind) || got.PathBytes() != e.Path || got.ToBytes() != e.To || got.Dir != e.Dir {
				t.Errorf("%+v, %v, want %+v", got, err, e)
			}
		}
		if _, err := w.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("after gone: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		w, err = f.Watch(t.Context(), "/d", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		<-guest.watches[1].closed
	})
}

// TestWatchEndsWithTheServer: its client is told why.
func TestWatchEndsWithTheServer(t *testing.T) {
	c, fake := newClient(t, func(*httpapi.Options) {})
	create(t, c, "x")
	w, err := c.Files("x").Watch(t.Context(), "/d", false)
	if err != nil {
		t.Fatal(err)
	}
	guest := fake.files["s000000000000000000001"]
	guest.watches[0].events <- core.FileEvent{Kind: core.FileWritten, Path: "/d/f"}
	if e, err := w.Recv(); err != nil || e.Type != api.WatchMessageTypeWrite {
		t.Errorf("%+v, %v", e, err)
	}
	_ = guest.watches[0].Close()
	_, err = w.Recv()
	wantCode(t, err, shoal.CodeUnavailable)
	_ = w.Close()
}
