package shoal

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"shoal/api"
)

// FileChange says what to change of a file. What is nil or empty stays as it is.
type FileChange struct {
	// Size cuts the file off or lengthens it with zeros.
	Size *int64
	// Mode is the permission bits.
	Mode *uint32
	// Owner and Group are names or numbers.
	Owner, Group string
	// ModifiedAt and AccessedAt are its times.
	ModifiedAt, AccessedAt *time.Time
	// SetXattrs and RemoveXattrs are extended attributes by their names, which begin with "user.".
	SetXattrs    map[string][]byte
	RemoveXattrs []string
	// Recursive changes owner, group and mode of everything below too.
	Recursive bool
	// NoFollow changes a symbolic link itself.
	NoFollow bool
}

// Change changes what there is to know of a file, and returns it as it is then. What was done before an error stays done.
func (f Files) Change(ctx context.Context, path string, ch FileChange) (FileInfo, error) {
	p, err := f.path("")
	if err != nil {
		return FileInfo{}, err
	}
	req := api.ChangeFileRequest{
		Size: ch.Size, Owner: ch.Owner, Group: ch.Group, ModifiedAt: ch.ModifiedAt, AccessedAt: ch.AccessedAt,
		Recursive: ch.Recursive, NoFollow: ch.NoFollow,
	}
	if ch.Mode != nil {
		req.Mode = octal(*ch.Mode)
	}
	for _, name := range ch.RemoveXattrs {
		x := api.XattrChange{Remove: true}
		x.Name, x.NameRaw = api.Text([]byte(name))
		req.Xattrs = append(req.Xattrs, x)
	}
	for name, value := range ch.SetXattrs {
		x := api.XattrChange{Value: value}
		x.Name, x.NameRaw = api.Text([]byte(name))
		req.Xattrs = append(req.Xattrs, x)
	}
	var out FileInfo
	return out, f.c.do(ctx, call{method: http.MethodPatch, path: p, query: pathQuery(path), in: req}, &out)
}

// StatXattrs is Stat with Xattrs of what the path leads to.
func (f Files) StatXattrs(ctx context.Context, path string) (FileInfo, error) {
	p, err := f.path("/stat")
	if err != nil {
		return FileInfo{}, err
	}
	q := pathQuery(path)
	q.Set("xattrs", "true")
	var out FileInfo
	return out, f.c.do(ctx, call{method: http.MethodGet, path: p, query: q}, &out)
}

// Xattrs returns a file's extended attributes whose names begin with "user.". A symbolic link is followed.
func (f Files) Xattrs(ctx context.Context, path string) (map[string][]byte, error) {
	out, err := f.StatXattrs(ctx, path)
	if err != nil {
		return nil, err
	}
	list := make(map[string][]byte, len(out.Xattrs))
	for _, x := range out.Xattrs {
		list[string(api.Join(x.Name, x.NameRaw))] = x.Value
	}
	return list, nil
}

// LinkOptions say how a link is made.
type LinkOptions struct {
	// Hard makes another name of the file at the target, which is an absolute path then.
	Hard bool
	// Replace takes the place of a file that is there already.
	Replace bool
	// User owns a symbolic link, a name or number, optionally ":group"; empty means the template's default user.
	User string
	// Parents makes missing parent directories.
	Parents bool
}

// Link makes a symbolic link at path that says target, or a hard link.
func (f Files) Link(ctx context.Context, path, target string, o LinkOptions) (FileInfo, error) {
	p, err := f.path("/link")
	if err != nil {
		return FileInfo{}, err
	}
	req := api.LinkFileRequest{Hard: o.Hard, Replace: o.Replace, User: o.User, Parents: o.Parents}
	req.Path, req.PathRaw = api.Text([]byte(path))
	req.Target, req.TargetRaw = api.Text([]byte(target))
	var out FileInfo
	return out, f.c.do(ctx, call{method: http.MethodPost, path: p, in: req}, &out)
}

// Checksum returns the digest of a file's content without sending that. Algorithms are "sha256", which is also meant by none,
// "sha512", "sha1" and "md5".
func (f Files) Checksum(ctx context.Context, path, algorithm string) (FileChecksum, error) {
	p, err := f.path("/checksum")
	if err != nil {
		return FileChecksum{}, err
	}
	q := pathQuery(path)
	if algorithm != "" {
		q.Set("algorithm", algorithm)
	}
	var out FileChecksum
	return out, f.c.do(ctx, call{method: http.MethodGet, path: p, query: q}, &out)
}

// Walk returns what is in a directory, so many levels deep: a directory's entries in the byte order of their names, each followed by
// what is below it. Pages are fetched as they are needed. After an error it ends.
func (f Files) Walk(ctx context.Context, path string, depth int) iter.Seq2[FileInfo, error] {
	return pages(func(cursor string) ([]FileInfo, string, error) {
		p, err := f.path("/list")
		if err != nil {
			return nil, "", err
		}
		q := withCursor(pathQuery(path), cursor)
		q.Set("depth", strconv.Itoa(depth))
		var page api.FileList
		err = f.c.do(ctx, call{method: http.MethodGet, path: p, query: q}, &page)
		return page.Files, page.NextCursor, err
	})
}
