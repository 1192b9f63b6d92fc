package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"shoal/api"
)

func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestDocumentIsValid checks the document, its examples included, against OpenAPI's own rules.
func TestDocumentIsValid(t *testing.T) {
	doc := load(t)
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaPatternValidation()); err != nil {
		t.Error(err)
	}
}

// TestOperations holds every operation to the house rules.
func TestOperations(t *testing.T) {
	seen := map[string]bool{}
	for path, item := range load(t).Paths.Map() {
		for method, op := range item.Operations() {
			name := method + " " + path
			if op.OperationID == "" || seen[op.OperationID] {
				t.Errorf("%s: operationId %q is missing or not unique", name, op.OperationID)
			}
			seen[op.OperationID] = true
			if op.Summary == "" || strings.HasSuffix(op.Summary, ".") {
				t.Errorf("%s: a summary is needed, without a full stop", name)
			}
			if !strings.HasSuffix(strings.TrimSpace(op.Description), ".") {
				t.Errorf("%s: a description of whole sentences is needed", name)
			}
			if len(op.Tags) != 1 {
				t.Errorf("%s: exactly one tag is needed", name)
			}
			checkParameters(t, name, append(slices.Clone(item.Parameters), op.Parameters...))
			checkBodies(t, name, op)
		}
	}
}

func checkParameters(t *testing.T, name string, list openapi3.Parameters) {
	t.Helper()
	for _, p := range list {
		v := p.Value
		if v.Description == "" {
			t.Errorf("%s: parameter %s has no description", name, v.Name)
		}
		if v.Example == nil && v.Schema.Value.Default == nil {
			t.Errorf("%s: parameter %s has neither example nor default", name, v.Name)
		}
	}
}

func checkBodies(t *testing.T, name string, op *openapi3.Operation) {
	t.Helper()
	contents := map[string]openapi3.Content{}
	if op.RequestBody != nil {
		contents["request"] = op.RequestBody.Value.Content
		if op.RequestBody.Value.Description == "" {
			t.Errorf("%s: the request has no description", name)
		}
	}
	errors := 0
	for status, r := range op.Responses.Map() {
		contents[status] = r.Value.Content
		if r.Value.Description == nil || *r.Value.Description == "" {
			t.Errorf("%s: response %s has no description", name, status)
		}
		if status[0] == '4' {
			errors++
		}
	}
	if errors == 0 {
		t.Errorf("%s: no 4xx response", name)
	}
	checkErrorResponses(t, name, op)
	for where, content := range contents {
		for kind, media := range content {
			if media.Example == nil {
				t.Errorf("%s: %s (%s) has no example", name, where, kind)
			}
		}
	}
}

// checkErrorResponses asks for the errors that an operation may answer with by what it is: a generated client should know them.
func checkErrorResponses(t *testing.T, name string, op *openapi3.Operation) {
	t.Helper()
	method, _, _ := strings.Cut(name, " ")
	takesJSON := op.RequestBody != nil && op.RequestBody.Value.Content["application/json"] != nil
	for _, want := range []struct {
		needed          bool
		status, because string
	}{
		{op.Security == nil, "401", "it needs a key"},
		{op.Security == nil, "429", "a tenant's rate is limited"},
		{takesJSON, "413", "a body may be too large"},
		{takesJSON, "415", "a body may be of another type"},
		{method != http.MethodGet, "501", "headers that it would not obey are refused"},
		{op.Security == nil && op.Responses.Value("503") != nil, "504", "what does not answer may do so slowly"},
	} {
		if want.needed && op.Responses.Value(want.status) == nil {
			t.Errorf("%s: no %s response, and %s", name, want.status, want.because)
		}
	}
	rest := op.Responses.Default()
	if rest == nil || rest.Ref != "#/components/responses/OtherError" {
		t.Errorf("%s: its default response is not OtherError", name)
	}
	for status, r := range op.Responses.Map() {
		if status < "400" {
			continue // "default" sorts after every number
		}
		media := r.Value.Content.Get("application/json")
		if media == nil || media.Schema.Ref != "#/components/schemas/ErrorBody" {
			t.Errorf("%s: response %s is not an ErrorBody", name, status)
		}
	}
}

// TestSchemas holds every schema to the house rules.
func TestSchemas(t *testing.T) {
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	for name, ref := range load(t).Components.Schemas {
		s := ref.Value
		if s.Description == "" {
			t.Errorf("%s has no description", name)
		}
		for field, p := range s.Properties {
			if p.Value.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
			if !snake.MatchString(field) {
				t.Errorf("%s.%s is not in snake_case", name, field)
			}
			// An $ref takes the description of what it points to.
			if strings.HasSuffix(name, "Request") && p.Ref == "" && !slices.Contains(s.Required, field) &&
				!regexp.MustCompile(`(?i)default|not together|is required|left out|takes the ttl|replaces all|absolute path|the same as base64`).MatchString(p.Value.Description) {
				t.Errorf("%s.%s is optional and doesn't say what its absence means", name, field)
			}
		}
		if (strings.HasSuffix(name, "Request") || name == "ExecInput") && (s.AdditionalProperties.Has == nil || *s.AdditionalProperties.Has) {
			t.Errorf("%s takes unknown fields", name)
		}
	}
}

// TestExamplesAreTheTypes decodes every JSON example into nothing but what the Go types know.
func TestExamplesAreTheTypes(t *testing.T) {
	types := map[string]func() any{
		"Sandbox": func() any { return &api.Sandbox{} }, "SandboxList": func() any { return &api.SandboxList{} },
		"CreateSandboxRequest": func() any { return &api.CreateSandboxRequest{} },
		"CreateExecRequest":    func() any { return &api.CreateExecRequest{} },
		"ExecResult":           func() any { return &api.ExecResult{} }, "Exec": func() any { return &api.Exec{} },
		"ExecMessage": func() any { return &api.ExecMessage{} }, "FileInfo": func() any { return &api.FileInfo{} },
		"EventList": func() any { return &api.EventList{} }, "TemplateList": func() any { return &api.TemplateList{} },
		"Key": func() any { return &api.Key{} }, "KeyList": func() any { return &api.KeyList{} },
		"CA": func() any { return &api.CA{} }, "DialectList": func() any { return &api.DialectList{} },
		"ErrorBody": func() any { return &api.ErrorBody{} }, "Version": func() any { return &api.Version{} },
	}
	checked := 0
	for path, item := range load(t).Paths.Map() {
		for method, op := range item.Operations() {
			for status, r := range op.Responses.Map() {
				for _, media := range r.Value.Content {
					name := media.Schema.Ref[strings.LastIndex(media.Schema.Ref, "/")+1:]
					newValue, ok := types[name]
					if !ok {
						continue
					}
					checked++
					if err := strict(media.Example, newValue()); err != nil {
						t.Errorf("%s %s %s: %v", method, path, status, err)
					}
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d examples were checked", checked)
	}
}

func strict(example, into any) error {
	data, err := json.Marshal(example)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// TestErrorRegistry holds errors.json to what it promises.
func TestErrorRegistry(t *testing.T) {
	codes, err := api.ErrorCodes()
	if err != nil {
		t.Fatal(err)
	}
	if len(codes) != 14 {
		t.Errorf("%d codes: the set is closed at 14; a new one needs an ADR", len(codes))
	}
	for i, c := range codes {
		if c.Number != i+1 {
			t.Errorf("%s has number %d, want %d", c.Code, c.Number, i+1)
		}
		if http.StatusText(c.Status) == "" || c.Status < 400 {
			t.Errorf("%s has status %d", c.Code, c.Status)
		}
		if !slices.Contains([]api.Retry{api.RetryNever, api.RetryAfterChange, api.RetryAfterDelay}, c.Retry) {
			t.Errorf("%s has retry advice %q", c.Code, c.Retry)
		}
		if c.Summary == "" || c.Doc == "" {
			t.Errorf("%s has no text", c.Code)
		}
	}
	text, err := api.ErrorsMarkdown()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codes {
		if !strings.Contains(text, "\n## "+c.Code+"\n") {
			t.Errorf("the reference has no section %s", c.Code)
		}
	}
}

func TestText(t *testing.T) {
	for _, in := range []string{"", "plain", "ü\n", "a\xffb", "\x00"} {
		text, raw := api.Text([]byte(in))
		if got := string(api.Join(text, raw)); got != in {
			t.Errorf("Join(Text(%q)) = %q", in, got)
		}
		if text != "" && raw != nil {
			t.Errorf("Text(%q) gives both forms", in)
		}
	}
}
