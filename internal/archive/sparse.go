package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// block is tar's unit.
	block = 512
	// hole is the smallest run of zeros that is left out, and the smallest file in which any is looked for is sparseFrom.
	hole       = 64 << 10
	sparseFrom = 1 << 20
	// samples is how many places of a file are looked at before all of it is, and sampleZeros how many of them are then zeros.
	samples     = 32
	sampleZeros = 8
	sampleBytes = 4 << 10
	// maxSparse bounds what the files with holes of an archive that is unpacked come to: their zeros cost their maker nothing, and us the time
	// to skip them.
	maxSparse = 512 << 30
	// maxSegments bounds the list of what is not a hole: readers refuse one that is too long.
	maxSegments = 8192
)

// segment is a run of content.
type segment struct{ offset, length int64 }

// data returns where a file has content, or nil if it is to be sent as it is.
func data(ctx context.Context, f *os.File, st *unix.Stat_t) ([]segment, error) {
	if st.Size < sparseFrom {
		return nil, nil
	}
	if st.Blocks*block < st.Size-hole {
		return seekData(ctx, f, st.Size)
	}
	// gVisor tells neither how many blocks a file has nor where its holes are, so there a file that is mostly zeros is read twice.
	if st.Blocks != (st.Size+block-1)/block || !mostlyZero(f, st.Size) {
		return nil, nil
	}
	return findData(ctx, f, st.Size)
}

// seekData asks the filesystem.
func seekData(ctx context.Context, f *os.File, size int64) ([]segment, error) {
	segments := []segment{}
	for at := int64(0); at < size && len(segments) < maxSegments; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return nil, nil //nolint:nilerr // a filesystem that can't tell: the file is sent as it is
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return nil, nil //nolint:nilerr // as above
		}
		segments = add(segments, from, min(to, size))
		at = to
	}
	return whole(segments, size), nil
}

// mostlyZero looks at some places of a file.
func mostlyZero(f *os.File, size int64) bool {
	buf, zeros := make([]byte, sampleBytes), 0
	for i := range int64(samples) {
		// In the middle of each part: files often begin and end with content.
		n, err := f.ReadAt(buf, (2*i+1)*(size/(2*samples)))
		if err == nil && n == len(buf) && isZero(buf) {
			zeros++
		}
	}
	return zeros >= sampleZeros
}

// findData reads a file and returns where it is not zero.
func findData(ctx context.Context, f *os.File, size int64) ([]segment, error) {
	segments := []segment{}
	buf := make([]byte, chunk)
	for at := int64(0); at < size && len(segments) < maxSegments; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := f.ReadAt(buf[:min(chunk, size-at)], at)
		for i := 0; i < n; i += hole {
			if part := buf[i:min(i+hole, n)]; !isZero(part) {
				segments = add(segments, at+int64(i), at+int64(i+len(part)))
			}
		}
		at += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if n == 0 {
			break // it shrank, which copying it will tell
		}
	}
	return whole(segments, size), nil
}

// add appends a run, to the last one if it touches that.
func add(list []segment, from, to int64) []segment {
	if n := len(list); n > 0 && from-(list[n-1].offset+list[n-1].length) < hole {
		list[n-1].length = to - list[n-1].offset
		return list
	}
	return append(list, segment{from, to - from})
}

// whole makes the last run reach the end if the list is full, and is nil if there is no hole worth it.
func whole(list []segment, size int64) []segment {
	if n := len(list); n == maxSegments {
		list[n-1].length = size - list[n-1].offset
	}
	var total int64
	for _, s := range list {
		total += s.length
	}
	if size-total < hole {
		return nil
	}
	return list
}

var zeros [hole]byte

func isZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

// sparse writes a file with holes in the form PAX 1.0 of GNU tar, which the standard library reads but does not write: a header of
// its own, then the list of runs, then the runs.
func (p *packer) sparse(f *os.File, full string, st *unix.Stat_t, segments []segment) error {
	if err := p.tw.Flush(); err != nil {
		return err
	}
	// Readers learn the size from a run at the end, which may be empty.
	if n := len(segments); n == 0 || segments[n-1].offset+segments[n-1].length < st.Size {
		segments = append(slices.Clip(segments), segment{st.Size, 0})
	}
	list := strconv.AppendInt(nil, int64(len(segments)), 10)
	var size int64
	for _, s := range segments {
		list = fmt.Appendf(list, "\n%d\n%d", s.offset, s.length)
		size += s.length
	}
	list = pad(append(list, '\n'))
	size += int64(len(list))
	if err := p.sparseHeader(f, full, st, size); err != nil {
		return err
	}
	if _, err := p.w.Write(list); err != nil {
		return err
	}
	for _, s := range segments {
		if err := p.copy(p.w, io.NewSectionReader(f, s.offset, s.length), full, s.length); err != nil {
			return err
		}
	}
	p.progress(0, st.Size-(size-int64(len(list))))
	_, err := p.w.Write(zeros[:-size&(block-1)])
	return err
}

// sparseHeader writes the two headers of a file with holes.
func (p *packer) sparseHeader(f *os.File, full string, st *unix.Stat_t, size int64) error {
	r := p.records(full, "", int(f.Fd()))
	r["GNU.sparse.major"], r["GNU.sparse.minor"] = "1", "0"
	r["GNU.sparse.name"], r["GNU.sparse.realsize"] = full, strconv.FormatInt(st.Size, 10)
	r["size"] = strconv.FormatInt(size, 10)
	r["uid"], r["gid"] = strconv.FormatUint(uint64(st.Uid), 10), strconv.FormatUint(uint64(st.Gid), 10)
	if r["uname"], r["gname"] = p.owner(st); r["uname"] == "" {
		delete(r, "uname")
	}
	if r["gname"] == "" {
		delete(r, "gname")
	}
	sec, nsec := st.Mtim.Unix()
	if sec >= 0 {
		r["mtime"] = fmt.Sprintf("%d.%09d", sec, nsec)
	} else if nsec == 0 {
		r["mtime"] = strconv.FormatInt(sec, 10)
	} else { // tar's numbers have a sign and then digits, the system's a fraction that counts upwards
		r["mtime"] = fmt.Sprintf("-%d.%09d", -(sec + 1), 1e9-nsec)
	}
	keys := make([]string, 0, len(r))
	for k := range r {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var records []byte
	for _, k := range keys {
		records = append(records, paxRecord(k, r[k])...)
	}
	dir, base := path.Split(full)
	b := ustar(tar.TypeXHeader, path.Join(dir, "PaxHeaders.0", base), int64(len(records)), 0, 0)
	b = append(b, pad(records)...)
	b = append(b, ustar(tar.TypeReg, path.Join(dir, "GNUSparseFile.0", base), size, int64(st.Mode&0o7777), max(sec, 0))...)
	_, err := p.w.Write(b)
	return err
}

// paxRecord is a record with its own length in front.
func paxRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	n := len(rest)
	for n != len(strconv.Itoa(n))+len(rest) {
		n = len(strconv.Itoa(n)) + len(rest)
	}
	return strconv.Itoa(n) + rest
}

// pad fills the last block.
func pad(b []byte) []byte { return append(b, zeros[:-len(b)&(block-1)]...) }

// ustar is a header block. What doesn't fit is said by records before it.
func ustar(kind byte, name string, size, mode, mtime int64) []byte {
	b := make([]byte, block)
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
	copy(b[:100], name)
	octal := func(field []byte, v int64) {
		digits := len(field) - 1
		if v>>(3*digits) != 0 {
			v = 0
		}
		copy(field, fmt.Sprintf("%0*o", digits, v))
	}
	octal(b[100:108], mode)
	octal(b[108:116], 0)
	octal(b[116:124], 0)
	octal(b[124:136], size)
	octal(b[136:148], mtime)
	copy(b[148:156], "        ")
	b[156] = kind
	copy(b[257:265], "ustar\x0000")
	octal(b[329:337], 0)
	octal(b[337:345], 0)
	var sum int64
	for _, c := range b {
		sum += int64(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return b
}
