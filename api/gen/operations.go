package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// load parses the OpenAPI document.
func load(root string) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join(root, "api", "openapi.yaml"))
	if err != nil {
		return nil, fmt.Errorf("load openapi.yaml: %w", err)
	}
	return doc, nil
}

// operation is one operation with where it is.
type operation struct {
	method, path string
	item         *openapi3.PathItem
	op           *openapi3.Operation
}

// methodOrder is the order of methods within a path.
var methodOrder = []string{"POST", "GET", "PUT", "PATCH", "DELETE"}

// list returns all operations by path, then method.
func list(doc *openapi3.T) []operation {
	var all []operation
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			all = append(all, operation{method, path, item, op})
		}
	}
	slices.SortFunc(all, func(a, b operation) int {
		if c := strings.Compare(a.path, b.path); c != 0 {
			return c
		}
		return slices.Index(methodOrder, a.method) - slices.Index(methodOrder, b.method)
	})
	return all
}

// parameters returns the operation's own parameters after those of its path.
func (o operation) parameters(in string) []*openapi3.Parameter {
	var all []*openapi3.Parameter
	for _, p := range append(slices.Clone(o.item.Parameters), o.op.Parameters...) {
		if p.Value.In == in {
			all = append(all, p.Value)
		}
	}
	return all
}

func (o operation) open() bool { return o.op.Security != nil && len(*o.op.Security) == 0 }

// operations writes the table that the server routes by and checks queries with.
func operations(root string, doc *openapi3.T) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(goHeader + "package api\n\n")
	for _, f := range []struct{ name, file string }{
		{"DocumentDigest", "openapi.yaml"}, {"TypesDigest", "openapi_gen.go"}, {"RegistryDigest", "errors.json"},
	} {
		sum, err := digest(filepath.Join(root, "api", f.file))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "// %s is the sha256 of %s when this was generated.\nconst %s = %q\n\n", f.name, f.file, f.name, sum)
	}
	b.WriteString("// Routes returns every operation of the document, by path.\nfunc Routes() []Route {\n\treturn []Route{\n")
	for _, o := range list(doc) {
		fmt.Fprintf(&b, "{ID: %q, Method: %q, Path: %q, Open: %v, Body: %v,",
			o.op.OperationID, o.method, o.path, o.open(), o.op.RequestBody != nil)
		if slices.ContainsFunc(o.parameters("header"), func(p *openapi3.Parameter) bool { return p.Name == "Idempotency-Key" }) {
			b.WriteString("Keyed: true,")
		}
		if query := o.parameters("query"); len(query) > 0 {
			b.WriteString("Query: []Parameter{\n")
			for _, p := range query {
				b.WriteString(parameter(p) + ",\n")
			}
			b.WriteString("},")
		}
		b.WriteString("},\n")
	}
	b.WriteString("\t}\n}\n")
	return format.Source(b.Bytes())
}

// parameter returns a Parameter literal.
func parameter(p *openapi3.Parameter) string {
	s := p.Schema.Value
	out := fmt.Sprintf("{Name: %q", p.Name)
	if s.Type.Is("array") {
		out += ", Many: true"
		s = s.Items.Value
	}
	switch {
	case s.Type.Is("integer"):
		out += ", Type: Integer"
	case s.Type.Is("boolean"):
		out += ", Type: Boolean"
	default:
		out += ", Type: String"
	}
	if s.Min != nil {
		out += fmt.Sprintf(", Min: %d", int64(*s.Min))
	}
	if s.Max != nil {
		out += fmt.Sprintf(", Max: %d", int64(*s.Max))
	}
	if s.MaxLength != nil {
		out += fmt.Sprintf(", MaxLength: %d", *s.MaxLength)
	}
	if len(s.Enum) > 0 {
		out += fmt.Sprintf(", Enum: %#v", words(s.Enum))
	}
	return out + "}"
}

// words returns an enum's values as strings.
func words(enum []any) []string {
	var out []string
	for _, v := range enum {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func digest(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("digest: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
