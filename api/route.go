package api

// Route is one operation of the document as a server routes it.
type Route struct {
	// ID is the document's operationId.
	ID     string
	Method string
	// Path has its parameters in braces, as net/http's ServeMux takes them.
	Path string
	// Open says that it needs no API key.
	Open bool
	// Body says that it takes a request body.
	Body bool
	// Keyed says that it takes an Idempotency-Key.
	Keyed bool
	// Query are the query parameters that it takes.
	Query []Parameter
}

// Parameter is one query parameter.
type Parameter struct {
	Name string
	Type ParameterType
	// Many says that it may be repeated.
	Many bool
	// Min and Max bound an integer; a Max of zero means no bound.
	Min, Max int64
	// MaxLength bounds a string, in characters; zero means no bound.
	MaxLength int
	// Enum lists the values allowed; empty means all.
	Enum []string
}

// ParameterType is the type of a query parameter.
type ParameterType int

// The parameter types.
const (
	String ParameterType = iota
	Integer
	Boolean
)
