package sqlite

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"time"

	"shoal/internal/core"
)

// position is where a page ended: the sort key of its last record. A page goes on behind it, whatever has been inserted or
// removed meanwhile.
type position struct {
	// Kind names the list, so that one list's cursor is no other's.
	Kind string `json:"k"`
	// At, Name, Number and Tenant are the parts of the sort key that the list uses, ID the part that breaks ties.
	At     int64  `json:"t,omitempty"`
	Name   string `json:"n,omitempty"`
	Number int64  `json:"v,omitempty"`
	Tenant string `json:"w,omitempty"`
	ID     string `json:"i"`
}

// String makes the opaque cursor: base64 of JSON with a checksum in front. The checksum tells garbage from cursors; it is no
// protection, and none is needed, since a query is scoped by its tenant and not by its cursor.
func (p position) String() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic("a cursor can't be encoded: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)), b...))
}

// parseCursor reads a cursor of the list that kind names. ok is false for the empty one.
func parseCursor(kind, cursor string) (p position, ok bool, err error) {
	if cursor == "" {
		return position{}, false, nil
	}
	bad := core.Invalid("cursor", "this is not a cursor that a page of this list returned")
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) < 4 || binary.BigEndian.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return position{}, false, bad
	}
	if err := json.Unmarshal(b[4:], &p); err != nil || p.Kind != kind {
		return position{}, false, bad
	}
	return p, true, nil
}

// nanoseconds is a time as a sort key; the zero time comes before all others.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
