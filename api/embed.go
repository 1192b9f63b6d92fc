package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed openapi.yaml
var openAPI string

//go:embed errors.json
var errorRegistry []byte

// OpenAPI returns the OpenAPI document, in YAML.
func OpenAPI() string { return openAPI }

// Retry says when a call that got an error may be tried again.
type Retry string

// The kinds of retry advice.
const (
	// RetryNever means that the same call gets the same error.
	RetryNever Retry = "never"
	// RetryAfterChange means that the call may succeed once something else has changed.
	RetryAfterChange Retry = "after_change"
	// RetryAfterDelay means that waiting helps.
	RetryAfterDelay Retry = "after_delay"
)

// ErrorCode is one entry of the registry of error codes.
type ErrorCode struct {
	Code string `json:"code"`
	// Number never changes and is never used again.
	Number int `json:"number"`
	// Status is the HTTP status of a reply with this code.
	Status  int    `json:"status"`
	Retry   Retry  `json:"retry"`
	Summary string `json:"summary"`
	Doc     string `json:"doc"`
}

// ErrorCodes returns the registry, in the order of the numbers.
func ErrorCodes() ([]ErrorCode, error) {
	var list []ErrorCode
	if err := json.Unmarshal(errorRegistry, &list); err != nil {
		return nil, fmt.Errorf("parse errors.json: %w", err)
	}
	return list, nil
}

// ErrorsMarkdown returns the reference of the error codes.
func ErrorsMarkdown() (string, error) {
	list, err := ErrorCodes()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Errors\n\n")
	b.WriteString("Every error of the API is `{\"error\": {\"code\", \"message\", \"field\"?, \"retry_after\"?, \"doc\", ")
	b.WriteString("\"request_id\"}}`. A program decides by `code`; `message` is for people and may change.\n\n")
	b.WriteString("| code | number | HTTP status | try again | meaning |\n|---|---|---|---|---|\n")
	for _, c := range list {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %d | %d | %s | %s |\n", c.Code, c.Code, c.Number, c.Status, c.Retry.words(), c.Summary)
	}
	for _, c := range list {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s\n", c.Code, c.Summary, c.Doc)
	}
	return b.String(), nil
}

// words returns the advice in plain words.
func (r Retry) words() string {
	switch r {
	case RetryAfterChange:
		return "after a look"
	case RetryAfterDelay:
		return "after a while"
	case RetryNever:
	}
	return "no"
}
