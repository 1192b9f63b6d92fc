package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/config"
	"shoal/internal/core"
)

// TestUninstallRefusesForeignDirectories shows that a directory in which no server has kept its store is never taken for a
// data directory, whatever lies in it.
func TestUninstallRefusesForeignDirectories(t *testing.T) {
	home := t.TempDir()
	write := func(name string) string {
		t.Helper()
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(path)
	}
	foreign := write("home/letter.txt")
	if err := os.MkdirAll(filepath.Join(home, "odd", storeFile), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"not there": filepath.Join(home, "nowhere"), "never used": foreign, "a folder of the store's name": filepath.Join(home, "odd"),
	} {
		if got, err := usedDataDir(path); !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	used := write("data/" + storeFile)
	link := filepath.Join(home, "link")
	if err := os.Symlink(used, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{used, link} {
		got, err := usedDataDir(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := filepath.EvalSymlinks(used)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
}

// TestParentsToClear: what servers have used is cleared, whatever the setting says now; what is given is cleared too.
func TestParentToClear(t *testing.T) {
	for name, tc := range map[string]struct {
		noted []string
		env   []string
		want  string
	}{
		"nothing noted":           {nil, nil, "shoal"},
		"nothing noted, given":    {nil, []string{"SHOAL_RUNTIME_CGROUP_PARENT=other"}, "other"},
		"another noted":           {[]string{"first", "second"}, nil, "first"},
		"another noted and given": {[]string{"first"}, []string{"SHOAL_RUNTIME_CGROUP_PARENT=other"}, "other"},
		"the same given":          {[]string{"first"}, []string{"SHOAL_RUNTIME_CGROUP_PARENT=first"}, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Load(config.Sources{Environ: tc.env})
			if err != nil {
				t.Fatal(err)
			}
			d, err := openDataDir(filepath.Join(t.TempDir(), "data"))
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			for _, parent := range tc.noted {
				if err := d.noteCgroupParent(parent); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := parentToClear(d, cfg); err != nil || got != tc.want {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestUninstallIsQuiet: drivers tell a person only what is wrong, unless a level is asked for.
func TestUninstallIsQuiet(t *testing.T) {
	for name, tc := range map[string]struct {
		env  []string
		want string
	}{
		"no level":   {nil, "wrong "},
		"info":       {[]string{"SHOAL_LOG_LEVEL=info"}, "opened wrong "},
		"only worse": {[]string{"SHOAL_LOG_LEVEL=error"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Load(config.Sources{Environ: append(tc.env, "SHOAL_LOG_FORMAT=json")})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			log, err := quietLogger(&out, cfg)
			if err != nil {
				t.Fatal(err)
			}
			log.Info("opened")
			log.Warn("wrong")
			got := ""
			for dec := json.NewDecoder(&out); dec.More(); {
				var line struct{ Msg string }
				if err := dec.Decode(&line); err != nil {
					t.Fatal(err)
				}
				got += line.Msg + " "
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
