package config

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"shoal/internal/core"
)

// contradictions are bounds between two settings.
func (c *Config) contradictions() []string {
	var list []string
	add := func(key string, format string, args ...any) {
		list = append(list, fmt.Sprintf("%s: ", c.Origin(key))+fmt.Sprintf(format, args...))
	}
	if c.TTL.Default > c.TTL.Max {
		add("ttl.default", "ttl.default is %s: allowed is at most ttl.max, which is %s",
			FormatDuration(c.TTL.Default), FormatDuration(c.TTL.Max))
	}
	if c.Sandbox.Memory > c.Sandbox.MemoryMax {
		add("sandbox.memory", "sandbox.memory is %s: allowed is at most sandbox.memory_max, which is %s",
			c.Sandbox.Memory, c.Sandbox.MemoryMax)
	}
	if c.Sandbox.VCPUsMax != 0 && c.Sandbox.VCPUs > c.Sandbox.VCPUsMax {
		add("sandbox.vcpus", "sandbox.vcpus is %g: allowed is at most sandbox.vcpus_max, which is %g",
			c.Sandbox.VCPUs, c.Sandbox.VCPUsMax)
	}
	for _, b := range []struct {
		key        string
		value, max int
	}{
		{"sandbox.pids", c.Sandbox.Pids, c.Sandbox.PidsMax},
		{"sandbox.open_files", c.Sandbox.OpenFiles, c.Sandbox.OpenFilesMax},
		{"sandbox.cpu_weight", c.Sandbox.CPUWeight, c.Sandbox.CPUWeightMax},
		{"sandbox.io_weight", c.Sandbox.IOWeight, c.Sandbox.IOWeightMax},
	} {
		if b.value > b.max {
			add(b.key, "%s is %d: allowed is at most %s_max, which is %d", b.key, b.value, b.key, b.max)
		}
	}
	if c.Sandbox.Pids > 0 && c.Sandbox.Pids < 16 {
		add("sandbox.pids", "sandbox.pids is %d: allowed is at least 16, or 0", c.Sandbox.Pids)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		key, missing := "tls_cert", "tls_key"
		if c.TLSCert == "" {
			key, missing = missing, key
		}
		add(key, "%s is set and %s is not: allowed is both or neither", key, missing)
	}
	return append(list, c.addressProblems()...)
}

// Check looks at what the settings name on this machine: it holds the certificate against its key, and looks whether the
// data directory is one or could be made. It changes nothing.
func (c *Config) Check() error {
	if c.TLSCert != "" {
		if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			return core.Wrap(core.CodeInvalid, err, "tls_cert %q and tls_key %q can't be used: %v", c.TLSCert, c.TLSKey, err)
		}
	}
	info, err := os.Stat(c.DataDir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return core.Invalid("data_dir", "data_dir is %q, which is not a directory", c.DataDir)
	case !os.IsNotExist(err):
		return core.Invalid("data_dir", "data_dir is %q, which can't be used: %v", c.DataDir, err)
	}
	// The server makes it with all that is missing above it.
	for above := filepath.Dir(c.DataDir); ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		switch {
		case err == nil && info.IsDir():
			return nil
		case err == nil || !os.IsNotExist(err):
			return core.Invalid("data_dir", "data_dir is %q, and %s above it can't hold it", c.DataDir, above)
		}
	}
}
