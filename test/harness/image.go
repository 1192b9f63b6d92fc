package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"testing"
)

// TinyImage is what `docker save` makes of an image that holds nothing but /hello, which prints "hello from nothing". It has no shell, no
// users and no libc.
func TinyImage(tb testing.TB) []byte {
	tb.Helper()
	layer := pack(tb, file{"hello", 0o755, program("hello from nothing\n")})
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/hello"}, "Env": []string{"MADE=here"}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	manifest := []byte(`[{"Config":"config.json","RepoTags":["tiny:1"],"Layers":["layer.tar"]}]`)
	return pack(tb, file{"manifest.json", 0o644, manifest}, file{"config.json", 0o644, config}, file{"layer.tar", 0o644, layer})
}

type file struct {
	name string
	mode int64
	data []byte
}

func pack(tb testing.TB, files ...file) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data))})
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// program is an executable for Linux on x86-64 that writes a text and returns 0: an ELF header, one segment, and two system calls.
func program(text string) []byte {
	const base, headers = 0x400000, 64 + 56
	code := []byte{0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x48, 0x8d, 0x35} // write(1, text…
	const rest = 5 + 2 + 5 + 2 + 2                                       // what follows the address of the text
	code = binary.LittleEndian.AppendUint32(code, rest)
	code = append(code, 0xba)
	code = binary.LittleEndian.AppendUint32(code, uint32(len(text)))
	code = append(code, 0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05) // …, len); exit(0)
	size := uint64(headers + len(code) + len(text))
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = binary.LittleEndian.AppendUint16(b, 2)  // executable
	b = binary.LittleEndian.AppendUint16(b, 62) // x86-64
	b = binary.LittleEndian.AppendUint32(b, 1)
	for _, n := range []uint64{base + headers, 64, 0} { // entry, program headers, section headers
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, n := range []uint16{64, 56, 1, 0, 0, 0} {
		b = binary.LittleEndian.AppendUint16(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, 1)                      // load
	b = binary.LittleEndian.AppendUint32(b, 5)                      // read, execute
	for _, n := range []uint64{0, base, base, size, size, 0x1000} { // offset, addresses, sizes, alignment
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return append(append(b, code...), text...)
}
