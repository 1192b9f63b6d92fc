package api

import "unicode/utf8"

// Text splits bytes into the two forms in which they travel: text if they are UTF-8, else raw, which JSON holds as
// base64. Much text of which more than a quarter is control characters, such as zeros, is raw too: JSON would make it up to six
// times as long.
func Text(b []byte) (text string, raw []byte) {
	if IsText(b) {
		return string(b), nil
	}
	return "", b
}

// IsText reports whether Text makes text of bytes.
func IsText(b []byte) bool { return utf8.Valid(b) && !swells(b) }

// swellsFrom is the size from which on it matters how long text is in JSON. What is shorter is likely to be read by people.
const swellsFrom = 1 << 10

// swells reports whether JSON would make text much longer by its escapes of control characters.
func swells(b []byte) bool {
	if len(b) < swellsFrom {
		return false
	}
	control := 0
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			control++
		}
	}
	return control > len(b)/4
}

// Join is the inverse of Text.
func Join(text string, raw []byte) []byte {
	if len(raw) > 0 {
		return raw
	}
	return []byte(text)
}

// StdoutBytes returns what the process wrote to stdout.
func (r ExecResult) StdoutBytes() []byte { return joinOptional(r.Stdout, r.StdoutRaw) }

// StderrBytes returns what the process wrote to stderr.
func (r ExecResult) StderrBytes() []byte { return joinOptional(r.Stderr, r.StderrRaw) }

func joinOptional(text *string, raw []byte) []byte {
	if text == nil {
		return raw
	}
	return []byte(*text)
}

// Bytes returns the output that the message carries.
func (m ExecMessage) Bytes() []byte { return Join(m.Data, m.DataRaw) }

// NameBytes returns the file's name as the guest has it; it need not be UTF-8.
func (f FileInfo) NameBytes() string { return string(Join(f.Name, f.NameRaw)) }

// PathBytes returns the path in its bytes.
func (m WatchMessage) PathBytes() string { return string(Join(m.Path, m.PathRaw)) }

// ToBytes returns the new path of what was renamed in its bytes; empty if that is not known.
func (m WatchMessage) ToBytes() string { return string(Join(m.To, m.ToRaw)) }

// PathBytes returns the file's path as the guest has it; it need not be UTF-8.
func (f FileInfo) PathBytes() string { return string(Join(f.Path, f.PathRaw)) }

// TargetBytes returns what a symbolic link points to; it need not be UTF-8.
func (f FileInfo) TargetBytes() string { return string(Join(f.Target, f.TargetRaw)) }

// PathBytes returns the file's path as the guest has it; it need not be UTF-8.
func (f FileDiff) PathBytes() string { return string(Join(f.Path, f.PathRaw)) }

// TargetBytes returns what a symbolic link says; it need not be UTF-8.
func (s FileState) TargetBytes() string { return string(Join(s.Target, s.TargetRaw)) }

// PathBytes returns where the package is, in the path's bytes.
func (p PackageDiff) PathBytes() string { return string(Join(p.Path, p.PathRaw)) }

// PathBytes returns the file's path in its bytes; empty if it is about a process.
func (c CredentialFinding) PathBytes() string { return string(Join(c.Path, c.PathRaw)) }

// PathBytes returns what the note is about, in the path's bytes.
func (n DiffNote) PathBytes() string { return string(Join(n.Path, n.PathRaw)) }
