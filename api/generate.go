package api

// The tool has a module of its own, so that what it needs stays out of the server's module.
//
//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml
//go:generate go run ./gen
