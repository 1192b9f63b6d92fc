package guest

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

const maxListFiles = files.MaxPage

// listFiles returns a page of a directory in the order of the names' bytes. A directory of any size takes no more memory
// than the page: only the smallest names after the given one are kept while it is read.
func (c *session) listFiles(q wire.ListFilesRequest) (wire.ListFilesReply, error) {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return wire.ListFilesReply{}, err
	}
	if q.Limit <= 0 || q.Limit > maxListFiles {
		return wire.ListFilesReply{}, core.Invalid("limit", "a limit is 1 to %d", maxListFiles)
	}
	reply := wire.ListFilesReply{Files: make([]wire.FileInfo, 0, min(q.Limit, 64))}
	n := &names{}
	// A page that is not full is the last one: what goes while it is made is made up for.
	for after, last := string(q.After), false; !last && len(reply.Files) < q.Limit; {
		want := q.Limit - len(reply.Files)
		page, err := smallest(name, after, want)
		if err != nil {
			return wire.ListFilesReply{}, fileError(err, "path", name)
		}
		if last = len(page) < want; len(page) > 0 {
			after = page[len(page)-1]
		}
		if reply.Files, err = describe(reply.Files, name, page, n); err != nil {
			return wire.ListFilesReply{}, err
		}
	}
	reply.Files, reply.More = fitting(reply.Files)
	return reply, nil
}

// fitting returns as many files as a frame has room for, one at least, and whether there are more.
func fitting(list []wire.FileInfo) (_ []wire.FileInfo, more bool) {
	size := 0
	for i := range list {
		if size += sizeOf(&list[i]); size > maxWalkBytes && i > 0 {
			return list[:i], true
		}
	}
	return list, false
}

// describe appends what there is to say of a directory's entries, except of those that have gone.
func describe(list []wire.FileInfo, dir string, page []string, n *names) ([]wire.FileInfo, error) {
	for _, entry := range page {
		// Without path.Join: cleaning would change the meaning of ".." after a link.
		full := dir + "/" + entry
		if dir == "/" {
			full = "/" + entry
		}
		st, err := os.Lstat(full)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fileError(err, "path", full)
		}
		i := fileInfo(full, st, n)
		i.Name = wire.Bytes(path.Base(entry))
		list = append(list, i)
	}
	return list, nil
}

// smallest returns the at most limit smallest names after the given one, in order.
func smallest(dir, after string, limit int) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	return files.Smallest(func() ([]string, error) { return d.Readdirnames(1024) }, after, limit)
}
