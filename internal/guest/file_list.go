package guest

import (
	"container/heap"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

const maxListFiles = 1000

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
	var kept largestFirst
	for {
		batch, err := d.Readdirnames(1024)
		for _, n := range batch {
			switch {
			case n <= after:
			case len(kept) < limit:
				heap.Push(&kept, n)
			case n < kept[0]:
				kept[0] = n
				heap.Fix(&kept, 0)
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(batch) == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(kept)
	return kept, nil
}

// largestFirst is a heap of names.
type largestFirst []string

func (h largestFirst) Len() int           { return len(h) }
func (h largestFirst) Less(i, j int) bool { return h[i] > h[j] }
func (h largestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds a name, for container/heap.
func (h *largestFirst) Push(v any) { *h = append(*h, v.(string)) }

// Pop takes the last name off, for container/heap.
func (h *largestFirst) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}
