// Package config is the server's one configuration: a YAML file, then SHOAL_* environment variables, then flags, all made
// from one table, and all strict. What it can't read or doesn't know it refuses by name.
//
// It must not know what a setting does, nor import anything that acts on one. Start reading at config.go, then settings.go,
// the table, and load.go.
package config
