package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKindOf(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n  Version 2.0, January 2004":                                                      "Apache-2.0",
		"Permission is hereby granted, free of\ncharge, to any person":                                     "MIT",
		"Redistribution and use in source and\nbinary forms, with":                                         "BSD-2-Clause",
		"Redistribution and use in source and binary forms; names may not be used to endorse or promote":   "BSD-3-Clause",
		"Mozilla Public License, version 2.0":                                                              "MPL-2.0",
		"Permission to use, copy, modify, and/or distribute this software for any purpose with or without": "ISC",
		"Additional IP Rights Grant (Patents)":                                                             "",
	} {
		if got := kindOf(text); got != want {
			t.Errorf("kindOf(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestUnknownLicenceIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("All rights reserved."), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := render([]linked{{Path: "example.org/x", Version: "v1.0.0", Dir: dir}})
	if err == nil || !strings.Contains(err.Error(), "example.org/x v1.0.0") {
		t.Errorf("render = %v, want an error that names the module", err)
	}
}

func TestSameTextIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("Permission is hereby granted, free of charge, to"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := render([]linked{{Path: "example.org/x", Dir: dir}, {Path: "example.org/y", Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(got), "Permission is hereby granted"); n != 1 {
		t.Errorf("the text is there %d times, want once:\n%s", n, got)
	}
	if !strings.Contains(string(got), "### example.org/x, example.org/y") {
		t.Errorf("the text doesn't name both modules:\n%s", got)
	}
}
