package layer

import (
	"archive/tar"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The model is what the specification says and nothing else: a layer's whiteouts first, all of them, on what lower layers left; then its
// entries. It keeps a map from path to node, and knows nothing of streams, descriptors or inodes.

// node is one file of the model. Hard links are one node at several paths.
type node struct {
	kind     byte
	mode     int64
	uid, gid int
	content  string
}

type model map[string]*node

// implied is a directory that no entry describes.
func implied() *node { return &node{kind: tar.TypeDir, mode: 0o755} }

// removeBelow removes everything below a path.
func (m model) removeBelow(path string) {
	maps.DeleteFunc(m, func(p string, _ *node) bool { return path == "" || strings.HasPrefix(p, path+"/") })
}

// put puts a node at a path, with the directories that are missing above it.
func (m model) put(path string, n *node) {
	for dir, _ := split(path); dir != ""; dir, _ = split(dir) {
		if m[dir] == nil {
			m[dir] = implied()
		}
	}
	if old := m[path]; old != nil && old.kind == tar.TypeDir && n.kind != tar.TypeDir {
		m.removeBelow(path)
	}
	m[path] = n
}

// step is one entry of a generated layer.
type step struct {
	hdr  tar.Header
	data string
	// hides is the path that it is a whiteout of, opaque the directory that it makes opaque.
	hides, opaque string
	isOpaque      bool
}

// apply applies a layer.
func (m model) apply(steps []step) {
	for _, s := range steps {
		switch {
		case s.isOpaque:
			m.removeBelow(s.opaque)
		case s.hides != "":
			delete(m, s.hides)
			m.removeBelow(s.hides)
		}
	}
	for _, s := range steps {
		switch {
		case s.isOpaque, s.hides != "":
		case s.hdr.Typeflag == tar.TypeLink:
			m.put(s.hdr.Name, m[s.hdr.Linkname])
		default:
			m.put(s.hdr.Name, &node{kind: s.hdr.Typeflag, mode: s.hdr.Mode, uid: s.hdr.Uid, gid: s.hdr.Gid, content: s.data + s.hdr.Linkname})
		}
	}
}

// lines says what there is, one line for each path; links to one file have the first path among them.
func (m model) lines() []string {
	var out []string
	first := map[*node]string{}
	for _, path := range slices.Sorted(maps.Keys(m)) {
		n := m[path]
		if first[n] == "" {
			first[n] = path
		}
		mode := n.mode
		if n.kind == tar.TypeSymlink {
			mode = 0o777
		}
		out = append(out, fmt.Sprintf("%s %c %o %d:%d %q =%s", path, n.kind, mode, n.uid, n.gid, n.content, first[n]))
	}
	return out
}

// realLines says the same of a tree.
func realLines(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	first := map[uint64]string{}
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		name, kind, content := strings.TrimPrefix(path, root+"/"), byte('?'), ""
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			kind = tar.TypeDir
		case unix.S_IFREG:
			kind = tar.TypeReg
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		case unix.S_IFLNK:
			kind = tar.TypeSymlink
			if content, err = os.Readlink(path); err != nil {
				return err
			}
		case unix.S_IFIFO:
			kind = tar.TypeFifo
		}
		if first[st.Ino] == "" {
			first[st.Ino] = name
		}
		out = append(out, fmt.Sprintf("%s %c %o %d:%d %q =%s", name, kind, st.Mode&0o7777, st.Uid, st.Gid, content, first[st.Ino]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Walks go by directory, the model by path.
	slices.SortFunc(out, func(a, b string) int {
		return strings.Compare(strings.SplitN(a, " ", 2)[0], strings.SplitN(b, " ", 2)[0])
	})
	return out
}

// generator makes layers of which every order of whiteouts and entries means the same.
type generator struct {
	*rand.Rand
	lower model
	n     int
}

func (g *generator) path() string {
	parts := make([]string, 1+g.IntN(3))
	for i := range parts {
		parts[i] = string(rune('a' + g.IntN(3)))
	}
	return strings.Join(parts, "/")
}

// layer makes one. An entry is left out if something in the layer, or a file of a lower one, is where its directories would be.
func (g *generator) layer() []step {
	var steps, links []step
	taken := map[string]byte{}
	fits := func(path string, kind byte) bool {
		if _, ok := taken[path]; ok {
			return false
		}
		for dir, _ := split(path); dir != ""; dir, _ = split(dir) {
			if k, ok := taken[dir]; ok && k != tar.TypeDir || g.lower[dir] != nil && g.lower[dir].kind != tar.TypeDir {
				return false
			}
		}
		for p := range taken {
			if kind != tar.TypeDir && strings.HasPrefix(p, path+"/") {
				return false
			}
		}
		taken[path] = kind
		return true
	}
	for range 1 + g.IntN(8) {
		g.n++
		hdr := tar.Header{Name: g.path(), Mode: int64(g.IntN(0o10000)), Uid: g.IntN(5), Gid: g.IntN(5)}
		s := step{hdr: hdr}
		switch g.IntN(9) {
		case 0, 1, 2:
			s.hdr.Typeflag, s.data = tar.TypeReg, fmt.Sprintf("content %d", g.n)
		case 3, 4:
			s.hdr.Typeflag = tar.TypeDir
		case 5:
			s.hdr.Typeflag, s.hdr.Linkname = tar.TypeSymlink, "nowhere"
		case 6:
			s.hdr.Typeflag = tar.TypeFifo
		case 7:
			dir, base := split(hdr.Name)
			s = step{hides: hdr.Name, hdr: tar.Header{Typeflag: tar.TypeReg, Name: filepath.Join(dir, whiteout+base)}}
		case 8:
			s = step{isOpaque: true, opaque: hdr.Name, hdr: tar.Header{Typeflag: tar.TypeReg, Name: hdr.Name + "/" + opaque}}
			if k, ok := taken[hdr.Name]; ok && k == tar.TypeDir {
				steps = append(steps, s)
				continue
			}
			if lower := g.lower[hdr.Name]; lower != nil && lower.kind != tar.TypeDir || !fits(hdr.Name, tar.TypeDir) {
				continue
			}
			steps = append(steps, s)
			continue
		}
		if s.hides != "" || fits(s.hdr.Name, s.hdr.Typeflag) {
			steps = append(steps, s)
		}
	}
	// A directory that a layer hides and makes opaque at once is there or not, depending on whom one asks.
	steps = slices.DeleteFunc(steps, func(s step) bool {
		return s.hides != "" && slices.ContainsFunc(steps, func(o step) bool { return o.isOpaque && strings.HasPrefix(o.opaque+"/", s.hides+"/") })
	})
	steps = slices.DeleteFunc(steps, func(s step) bool {
		return s.isOpaque && slices.ContainsFunc(steps, func(o step) bool { return o.isOpaque && strings.HasPrefix(s.opaque, o.opaque+"/") })
	})
	g.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for range g.IntN(3) {
		if target, ok := g.linkTarget(append(slices.Clip(steps), links...)); ok {
			s := step{hdr: tar.Header{Typeflag: tar.TypeLink, Name: g.path(), Linkname: target}}
			if s.hdr.Name != target && fits(s.hdr.Name, tar.TypeLink) && !strings.HasPrefix(target, s.hdr.Name+"/") {
				links = append(links, s)
			}
		}
	}
	return append(steps, links...)
}

// linkTarget chooses a file that is there whatever the order: one that the layer makes, or one of a lower layer that it leaves alone.
func (g *generator) linkTarget(steps []step) (string, bool) {
	after := maps.Clone(g.lower)
	after.apply(steps)
	var all []string
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if after[path].kind != tar.TypeDir {
			all = append(all, path)
		}
	}
	if len(all) == 0 {
		return "", false
	}
	return all[g.IntN(len(all))], true
}

// TestModel applies random stacks of layers to a tree and to the model, and finds the same in both.
func TestModel(t *testing.T) {
	stacks := 60
	if os.Getenv("SHOAL_TEST_FULL") == "1" {
		stacks = 2000
	}
	for seed := range uint64(stacks) {
		tree, root := newTree(t, testLimits)
		m := model{}
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), lower: m}
		var told []string
		for range 1 + g.IntN(5) {
			steps := g.layer()
			contents, entries := map[string]string{}, make([]tar.Header, 0, len(steps))
			for _, s := range steps {
				entries = append(entries, s.hdr)
				contents[s.hdr.Name] = s.data
				told = append(told, fmt.Sprintf("%c %s %s", s.hdr.Typeflag, s.hdr.Name, s.hdr.Linkname))
			}
			told = append(told, "--")
			if err := apply(t, tree, packExact(t, contents, entries)); err != nil {
				t.Fatalf("stack %d: %v\n%s", seed, err, strings.Join(told, "\n"))
			}
			m.apply(steps)
		}
		if d := cmp.Diff(m.lines(), realLines(t, root)); d != "" {
			t.Fatalf("stack %d (-model +tree):\n%s\n%s", seed, d, strings.Join(told, "\n"))
		}
	}
}

// packExact is pack, and leaves modes of zero as they are.
func packExact(t *testing.T, contents map[string]string, entries []tar.Header) []byte {
	t.Helper()
	const mark = 0o10000 // The applier takes the twelve bits of a mode.
	for i := range entries {
		entries[i].Mode |= mark
	}
	return pack(t, contents, entries...)
}
