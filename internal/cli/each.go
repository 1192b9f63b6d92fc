package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	shoal "shoal/sdk/go"
)

// result is what came of a command on one of several things, as -o json prints it.
type result struct {
	Sandbox   string `json:"sandbox,omitempty"`
	Exec      string `json:"exec,omitempty"`
	Key       string `json:"key,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Operation string `json:"operation,omitempty"`
	Template  string `json:"template,omitempty"`
	Registry  string `json:"registry,omitempty"`
	Tag       string `json:"tag,omitempty"`
	// Path is of a sandbox's file. What isn't UTF-8 is in PathRaw.
	Path    string `json:"path,omitempty"`
	PathRaw []byte `json:"path_raw,omitempty"`
	// Source and Destination are those of a copy.
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	Done        bool   `json:"done"`
	// Code and Message say why it was not done.
	Code    shoal.Code `json:"code,omitempty"`
	Message string     `json:"message,omitempty"`
}

func resultOf(what, item string, err error) result {
	r := result{Done: err == nil}
	switch what {
	case "exec":
		r.Exec = item
	case "key":
		r.Key = item
	case "tenant":
		r.Tenant = item
	case "operation":
		r.Operation = item
	case "template":
		r.Template = item
	case "registry":
		r.Registry = item
	case "path":
		r.Path, r.PathRaw = shoal.Text([]byte(item))
	default:
		r.Sandbox = item
	}
	if err != nil {
		r.Code, r.Message = shoal.ErrorCode(err), explain(err)
	}
	return r
}

// each does something to every item, once, and reports all failures, by name if there are several items.
func each(a *app, what string, items []string, do func(string) error) error {
	items = distinct(items)
	results, failed := []result{}, []string{}
	var last error
	for _, item := range items {
		last = do(item)
		if unreachable(last) != "" {
			break // So it would be for the others.
		}
		results = append(results, resultOf(what, item, last))
		switch {
		case last == nil:
		case errors.As(last, new(*notFoundError)):
			failed = append(failed, explain(last)) // It names the item.
		default:
			failed = append(failed, fmt.Sprintf("%s: %s", item, explain(last)))
		}
	}
	if a.json() {
		if err := a.printJSON(results); err != nil {
			return err
		}
	}
	switch {
	case unreachable(last) != "" || len(items) == 1:
		return last
	case len(failed) > 0:
		return severalError(distinct(failed))
	}
	return nil
}

// resultOfCopy is what comes of a move or a copy.
func resultOfCopy(from, to string) result {
	return result{Source: strings.ToValidUTF8(from, "?"), Destination: strings.ToValidUTF8(to, "?")}
}

// one prints what came of a command on a single thing, if results are printed as objects, and returns why it was not done.
func (r result) one(a *app, err error) error {
	if !a.json() || unreachable(err) != "" {
		return err
	}
	r.Done = err == nil
	if err != nil {
		r.Code, r.Message = shoal.ErrorCode(err), explain(err)
	}
	if perr := a.printJSON([]result{r}); perr != nil {
		return perr
	}
	return err
}

// distinct leaves out what was named before.
func distinct(items []string) []string {
	var list []string
	for _, item := range items {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// severalError is several failures, each of which is printed as one is.
type severalError []string

// Error returns a line for each.
func (e severalError) Error() string { return strings.Join(e, "\nshoal: ") }
