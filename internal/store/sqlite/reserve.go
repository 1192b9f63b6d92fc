package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// reserveBytes is how much of the host's disk is set aside behind the database and behind its log: thousands of records.
	reserveBytes = 16 << 20
	// reserveEvery is after how many writes it is looked whether so much is still there.
	reserveEvery = 64
)

// reserve keeps blocks beyond the ends of the database and its log, which they grow into. When another program has filled the
// host's disk nothing new can be begun, but a delete and the end of an exec must still be recorded.
//
// It holds the database open for as long as SQLite does: closing any descriptor of a file drops the process's locks on it,
// SQLite's own included.
type reserve struct {
	database *os.File
	writes   int
}

// keep sets blocks aside after the first write and then every so many. The caller is the one writer.
func (r *reserve) keep() error {
	r.writes++
	if r.writes%reserveEvery != 1 {
		return nil
	}
	return r.fill()
}

func (r *reserve) fill() error {
	err := setAside(r.database)
	// The log has no locks of its own: these are in the file beside it.
	log, openErr := os.OpenFile(r.database.Name()+"-wal", os.O_RDWR, 0)
	if errors.Is(openErr, fs.ErrNotExist) {
		return err
	}
	if openErr != nil {
		return errors.Join(err, fmt.Errorf("set blocks aside: %w", openErr))
	}
	return errors.Join(err, setAside(log), log.Close())
}

// setAside allocates blocks beyond a file's end without making it longer. Where the filesystem can't, there is no reserve.
func setAside(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	if st.Blocks*512-st.Size > reserveBytes/2 {
		return nil
	}
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, st.Size, reserveBytes)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("set blocks aside for %s: %w", f.Name(), err)
	}
	return nil
}

func (r *reserve) close() error { return r.database.Close() }
