package envd

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"

	"connectrpc.com/connect"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/e2b/envd/filesystempb"
)

const (
	maxPath = 4096
	// maxEntries bounds what one listing returns.
	maxEntries = 100_000
	// maxListed bounds the bytes of their names: a tree can have little but long paths.
	maxListed = 32 << 20
	walkPage  = 1000
)

// filesystem is the service filesystem.Filesystem.
type filesystem struct{ *handler }

var _ filesystempb.FilesystemHandler = (*filesystem)(nil)

// files is a sandbox's files as one user sees them.
type files struct {
	guest core.Guest
	user  string
}

// filesOf returns the files of the sandbox that a request is for.
func (h *handler) filesOf(ctx context.Context, user string) (files, error) {
	t := target(ctx)
	guest, err := h.control.Files(ctx, t.Principal, t.ref())
	return files{guest, user}, outside(err)
}

// callFiles is filesOf for a call of the service: its user comes by basic authorization.
func (s *filesystem) callFiles(ctx context.Context, header http.Header) (files, error) {
	dialect.CallOf(ctx).Quiet = true
	user, err := basicUser(header)
	if err != nil {
		return files{}, err
	}
	return s.filesOf(ctx, user)
}

// place returns the absolute path that the user means. What is absolute already is taken as it is, unless the user has to be looked at.
func (f files) place(ctx context.Context, field, name string) (core.Place, error) {
	if len(name) > maxPath {
		return core.Place{}, core.Invalid(field, "a path has at most %d bytes", maxPath)
	}
	if f.user == "" && strings.HasPrefix(name, "/") && tidy(name) {
		return core.Place{Path: name}, nil
	}
	return f.resolve(ctx, name)
}

// resolve asks what the user means by a path, and who that is.
func (f files) resolve(ctx context.Context, name string) (core.Place, error) {
	p, err := f.guest.Resolve(ctx, name, f.user)
	return p, aboutUser(err, f.user)
}

// tidy reports whether nothing of an absolute path needs to be cleaned away.
func tidy(name string) bool {
	return name == "/" || !strings.Contains(name, "//") && !strings.Contains(name+"/", "/./") && !strings.HasSuffix(name, "/")
}

// stat describes one file.
func (f files) stat(ctx context.Context, name string) (core.FileInfo, error) {
	page, _, err := f.guest.Walk(ctx, name, core.WalkOptions{Limit: 1})
	if err == nil && len(page) == 0 {
		err = core.Errorf(core.CodeNotFound, "no such file: %q", text(name))
	}
	if err != nil {
		return core.FileInfo{}, err
	}
	return page[0], nil
}

// Stat describes a file.
func (s *filesystem) Stat(ctx context.Context, r *connect.Request[filesystempb.StatRequest]) (*connect.Response[filesystempb.StatResponse], error) {
	entry, err := s.act(ctx, r.Header(), r.Msg.GetPath(), func(files, string) error { return nil })
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&filesystempb.StatResponse{Entry: entry}), nil
}

// act does something with a file and describes it afterwards.
func (s *filesystem) act(ctx context.Context, header http.Header, name string, do func(f files, name string) error) (*filesystempb.EntryInfo, error) {
	f, err := s.callFiles(ctx, header)
	if err != nil {
		return nil, err
	}
	place, err := f.place(ctx, "path", name)
	if err != nil {
		return nil, err
	}
	if err := do(f, place.Path); err != nil {
		return nil, err
	}
	info, err := f.stat(ctx, place.Path)
	if err != nil {
		return nil, err
	}
	return entryOf(info), nil
}

// MakeDir makes a directory, with those above it that are missing.
func (s *filesystem) MakeDir(ctx context.Context, r *connect.Request[filesystempb.MakeDirRequest]) (*connect.Response[filesystempb.MakeDirResponse], error) {
	entry, err := s.act(ctx, r.Header(), r.Msg.GetPath(), func(f files, name string) error {
		err := f.guest.Mkdir(ctx, name, core.WriteOptions{User: f.user, Parents: true, Exclusive: true})
		if !core.IsCode(err, core.CodeExists) {
			return err
		}
		info, statErr := f.stat(ctx, name)
		if statErr == nil && !isDirectory(info) {
			return core.Invalid("path", "it is there and no directory: %q", text(name))
		}
		return core.Errorf(core.CodeExists, "directory already exists: %q", text(name))
	})
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&filesystempb.MakeDirResponse{Entry: entry}), nil
}

// Move renames a file, and makes the directories above its new place that are missing.
func (s *filesystem) Move(ctx context.Context, r *connect.Request[filesystempb.MoveRequest]) (*connect.Response[filesystempb.MoveResponse], error) {
	entry, err := s.act(ctx, r.Header(), r.Msg.GetDestination(), func(f files, to string) error {
		from, err := f.place(ctx, "source", r.Msg.GetSource())
		if err != nil {
			return err
		}
		err = f.guest.Move(ctx, from.Path, to)
		var e *core.Error
		if !errors.As(err, &e) || e.Code != core.CodeNotFound {
			return err
		}
		if e.Field == "from" {
			return core.Errorf(core.CodeNotFound, "source file not found: %q", text(from.Path))
		}
		if err := f.guest.Mkdir(ctx, path.Dir(to), core.WriteOptions{User: f.user, Parents: true}); err != nil {
			return err
		}
		return f.guest.Move(ctx, from.Path, to)
	})
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&filesystempb.MoveResponse{Entry: entry}), nil
}

// Remove removes a file or a whole tree. One that isn't there is fine.
func (s *filesystem) Remove(ctx context.Context, r *connect.Request[filesystempb.RemoveRequest]) (*connect.Response[filesystempb.RemoveResponse], error) {
	err := s.remove(ctx, r)
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&filesystempb.RemoveResponse{}), nil
}

func (s *filesystem) remove(ctx context.Context, r *connect.Request[filesystempb.RemoveRequest]) error {
	f, err := s.callFiles(ctx, r.Header())
	if err != nil {
		return err
	}
	place, err := f.place(ctx, "path", r.Msg.GetPath())
	if err != nil {
		return err
	}
	err = f.guest.Remove(ctx, place.Path, core.RemoveOptions{Recursive: true})
	if core.IsCode(err, core.CodeNotFound) {
		return nil
	}
	return err
}

// ListDir lists a directory, some levels deep, in the order of a walk.
func (s *filesystem) ListDir(ctx context.Context, r *connect.Request[filesystempb.ListDirRequest]) (*connect.Response[filesystempb.ListDirResponse], error) {
	reply := &filesystempb.ListDirResponse{}
	err := s.list(ctx, r, func(info core.FileInfo) { reply.Entries = append(reply.Entries, entryOf(info)) })
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(reply), nil
}

func (s *filesystem) list(ctx context.Context, r *connect.Request[filesystempb.ListDirRequest], add func(core.FileInfo)) error {
	f, err := s.callFiles(ctx, r.Header())
	if err != nil {
		return err
	}
	place, err := f.place(ctx, "path", r.Msg.GetPath())
	if err != nil {
		return err
	}
	opts := core.WalkOptions{Depth: int(max(r.Msg.GetDepth(), 1)), Limit: walkPage}
	for total, size := 0, 0; ; {
		page, more, err := f.guest.Walk(ctx, place.Path, opts)
		if err != nil {
			return f.listError(ctx, place.Path, err)
		}
		for _, info := range page {
			if size += namesOf(info); size > maxListed {
				return core.Invalid("depth", "the names of what is there come to more than %d MiB: list the tree in parts, with a smaller depth", maxListed>>20)
			}
			add(info)
			opts.After = info.Path
		}
		if !more {
			return nil
		}
		if total += len(page); total >= maxEntries {
			return core.Invalid("depth", "there are more than %d entries: list the tree in parts, with a smaller depth", maxEntries)
		}
	}
}

// namesOf is how many bytes the names of a file take.
func namesOf(info core.FileInfo) int {
	n := len(info.Name) + len(info.Path) + len(info.Target) + len(info.Owner) + len(info.Group)
	if info.Final != nil {
		n += len(info.Final.Path)
	}
	return n
}

// listError tells a circle of links, which is the files' state, from a path that is wrong.
func (f files) listError(ctx context.Context, name string, err error) error {
	if !core.IsCode(err, core.CodeInvalid) {
		return err
	}
	info, statErr := f.stat(ctx, name)
	switch {
	case statErr != nil:
		return err
	case info.Type == core.FileSymlink && info.Final == nil:
		return core.Errorf(core.CodeConflict, "the symbolic links go in a circle: %q", text(name))
	case !isDirectory(info):
		return core.Invalid("path", "path is not a directory: %q", text(name))
	}
	return err
}
