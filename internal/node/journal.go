package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"shoal/internal/core"
)

// phase says how far a sandbox has come on this machine.
type phase string

const (
	// phaseCreating: parts of it may exist; after a power cut perhaps all of it, since the journal is not synced.
	phaseCreating phase = "creating"
	// phaseRunning: it has answered and runs, or has run and ended by itself.
	phaseRunning phase = "running"
	// phaseStopped: its tree is kept and nothing of it is to run, though some of it may still be there if the stop was cut off.
	phaseStopped phase = "stopped"
	// phaseWaking: parts of it may exist beside its tree.
	phaseWaking phase = "waking"
	// phaseDeleting: it must go, whatever is left of it.
	phaseDeleting phase = "deleting"
)

// entry is what the journal says of one sandbox. The format is version 1; an entry with another version is refused.
type entry struct {
	Version     int             `json:"version"`
	Sandbox     core.SandboxID  `json:"sandbox"`
	Tenant      core.TenantID   `json:"tenant"`
	Incarnation int64           `json:"incarnation"`
	Epoch       int64           `json:"epoch"`
	Template    core.TemplateID `json:"template"`
	Resources   core.Resources  `json:"resources"`
	Phase       phase           `json:"phase"`
	At          time.Time       `json:"at"`
}

const journalVersion = 1

// journal is a directory with one small file a sandbox, replaced by rename.
//
// A file is not synced to the disk: the journal has to survive a kill of the server, not a power cut. After a power cut
// nothing runs, and a tree without an entry is kept if the store knows it, and set aside if it does not.
type journal struct{ dir string }

// openJournal opens the journal and removes entries that were never finished: the old ones stand.
func openJournal(dir string) (*journal, error) {
	if err := os.MkdirAll(filepath.Join(dir, "aside"), 0o700); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	for _, d := range names {
		if !strings.HasSuffix(d.Name(), unfinished) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, d.Name())); err != nil {
			return nil, fmt.Errorf("open journal: %w", err)
		}
	}
	return &journal{dir: dir}, nil
}

// unfinished ends the name of an entry that is being written.
const unfinished = ".json.new"

func (j *journal) path(id core.SandboxID) string { return filepath.Join(j.dir, string(id)+".json") }

// put writes an entry; the old one stands until the new one is whole.
func (j *journal) put(e entry) error {
	e.Version = journalVersion
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode journal entry: %w", err)
	}
	tmp := filepath.Join(j.dir, string(e.Sandbox)+unfinished)
	err = os.WriteFile(tmp, data, 0o600)
	if err == nil {
		err = os.Rename(tmp, j.path(e.Sandbox))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write journal: %w", err), ignoreMissing(os.Remove(tmp)))
	}
	return nil
}

// journalError tells a caller why nothing can be begun.
func journalError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return core.Wrap(core.CodeExhausted, err, "the server's disk is full")
	}
	return core.Wrap(core.CodeInternal, err, "the node can't write its journal")
}

// get returns an entry; ok is false if there is none.
func (j *journal) get(id core.SandboxID) (e entry, ok bool, err error) {
	data, err := os.ReadFile(j.path(id))
	if errors.Is(err, os.ErrNotExist) {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, fmt.Errorf("read journal: %w", err)
	}
	e, err = decodeEntry(data, id)
	return e, err == nil, err
}

func decodeEntry(data []byte, id core.SandboxID) (entry, error) {
	var e entry
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("read journal entry %s: %w", id, err)
	}
	if e.Version != journalVersion || e.Sandbox != id {
		return e, fmt.Errorf("read journal entry %s: version %d for %q", id, e.Version, e.Sandbox)
	}
	switch e.Phase {
	case phaseCreating, phaseRunning, phaseStopped, phaseWaking, phaseDeleting:
		return e, nil
	}
	return e, fmt.Errorf("read journal entry %s: unknown phase %q", id, e.Phase)
}

func (j *journal) remove(id core.SandboxID) error { return ignoreMissing(os.Remove(j.path(id))) }

// setAside moves an entry out of the way, for as long as its tree is kept in quarantine. The file's time says since when.
func (j *journal) setAside(id core.SandboxID, now time.Time) error {
	if err := os.Chtimes(j.path(id), now, now); err != nil {
		return ignoreMissing(err)
	}
	return ignoreMissing(os.Rename(j.path(id), filepath.Join(j.dir, "aside", string(id)+".json")))
}

// purgeAside removes entries that were set aside longer ago than age.
func (j *journal) purgeAside(now time.Time, age time.Duration) error {
	names, err := os.ReadDir(filepath.Join(j.dir, "aside"))
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	var errs []error
	for _, d := range names {
		info, err := d.Info()
		if err != nil || now.Sub(info.ModTime()) < age {
			continue
		}
		errs = append(errs, ignoreMissing(os.Remove(filepath.Join(j.dir, "aside", d.Name()))))
	}
	return errors.Join(errs...)
}

// list returns every entry. One that can't be read is returned with only its id and phase running, so that what it stands for
// is kept.
func (j *journal) list() ([]entry, error) {
	names, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	var out []entry
	for _, d := range names {
		id, ok := strings.CutSuffix(d.Name(), ".json")
		if !ok || !core.IsID(id) {
			continue
		}
		e, found, err := j.get(core.SandboxID(id))
		if err != nil {
			e = entry{Sandbox: core.SandboxID(id), Phase: phaseRunning}
		} else if !found {
			continue
		}
		out = append(out, e)
	}
	return out, nil
}
