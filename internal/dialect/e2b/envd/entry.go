package envd

import (
	"io/fs"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/filesystempb"
)

// permissionBits are the bits that clients know as a file's mode.
const permissionBits = 0o777

// entryOf describes a file in the clients' form. Names that are not UTF-8 can't be said in it.
func entryOf(f core.FileInfo) *filesystempb.EntryInfo {
	e := &filesystempb.EntryInfo{
		Name: text(f.Name), Path: text(f.Path), Type: typeOf(f.Type), Size: f.Size, Mode: f.Mode & permissionBits,
		Permissions: permissionsOf(f), Owner: text(f.Owner), Group: text(f.Group), ModifiedTime: timestamppb.New(f.MTime),
	}
	if f.Type != core.FileSymlink {
		return e
	}
	// Type and mode are those of what the link leads to; of one that leads nowhere there is neither.
	e.Type, e.Mode, e.SymlinkTarget = filesystempb.FileType_FILE_TYPE_UNSPECIFIED, 0, proto.String(e.GetPath())
	if f.Final != nil {
		e.Type, e.Mode, e.SymlinkTarget = typeOf(f.Final.Type), f.Final.Mode&permissionBits, proto.String(text(f.Final.Path))
	}
	return e
}

func typeOf(t core.FileType) filesystempb.FileType {
	switch t {
	case core.FileRegular:
		return filesystempb.FileType_FILE_TYPE_FILE
	case core.FileDirectory:
		return filesystempb.FileType_FILE_TYPE_DIRECTORY
	case core.FileSymlink:
		return filesystempb.FileType_FILE_TYPE_SYMLINK
	case core.FileOther:
	}
	return filesystempb.FileType_FILE_TYPE_UNSPECIFIED
}

// isDirectory reports whether a file is a directory or leads to one.
func isDirectory(f core.FileInfo) bool {
	return f.Type == core.FileDirectory || f.Final != nil && f.Final.Type == core.FileDirectory
}

// permissionsOf writes mode and type as Go does, such as "drwxr-xr-x"; of a link, its own.
func permissionsOf(f core.FileInfo) string {
	mode := fs.FileMode(f.Mode & permissionBits)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if f.Mode&bit != 0 {
			mode |= flag
		}
	}
	switch f.Type {
	case core.FileRegular:
	case core.FileDirectory:
		mode |= fs.ModeDir
	case core.FileSymlink:
		mode |= fs.ModeSymlink
	case core.FileOther:
		mode |= fs.ModeIrregular
	}
	return mode.String()
}

// text makes bytes of a sandbox fit for a message, which is UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// shown is what an error repeats of a caller's words, which may be as long as a message: a few of them.
func shown(s string) string {
	const most = 64
	runes := []rune(s[:min(len(s), utf8.UTFMax*(most+1))])
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most]) + "…"
}
