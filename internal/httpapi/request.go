package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpserve"
	"shoal/internal/store"
)

// request is one HTTP request with what has been learned about it. One goroutine uses it at a time.
type request struct {
	*http.Request
	id        string
	began     time.Time
	op        api.Route
	principal control.Principal
	// query holds the parameters, checked against the document.
	query url.Values
	// tether ends it from outside, after gives back what it took; let says that its caller was let in.
	tether *httpserve.Tether
	after  []func()
	let    bool
	// target is what it was about, if the path doesn't say so.
	target string
	// err is why it failed, for the log.
	err  error
	code core.Code
	// outcome and detail are what the audit is told of a call that made many, where code doesn't say it.
	outcome core.Code
	detail  string
}

type requestKey struct{}

// newRequest begins a request and ties it to the http.Request that the handlers get.
func newRequest(hr *http.Request, reply *httpserve.Reply) *request {
	hr, tether := httpserve.NewTether(hr, reply)
	r := &request{id: core.NewID(), began: time.Now(), tether: tether}
	r.Request = hr.WithContext(context.WithValue(hr.Context(), requestKey{}, r))
	return r
}

// requestOf returns the request that newRequest made; the mux has added the path's values to hr.
func requestOf(hr *http.Request) *request {
	r, ok := hr.Context().Value(requestKey{}).(*request)
	if !ok {
		panic("httpapi: a request that did not come through serve")
	}
	r.Request = hr
	return r
}

var refPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`) })

// ref returns a path value that names something by id or name. One that can't be either names nothing.
func (r *request) ref(name, noun string) (string, error) {
	v := r.PathValue(name)
	if !refPattern().MatchString(v) {
		return "", core.Errorf(core.CodeNotFound, "no such %s", noun)
	}
	return v, nil
}

func (r *request) sandbox() (string, error) { return r.ref("id", "sandbox") }

// exec returns the path's sandbox and exec.
func (r *request) exec() (string, core.ExecID, error) {
	sandbox, err := r.sandbox()
	if err != nil {
		return "", "", err
	}
	id, err := r.ref("exec", "exec")
	return sandbox, core.ExecID(id), err
}

// parseQuery checks the query against the document: nothing unknown, repeated, of the wrong type or out of bounds.
func (r *request) parseQuery() error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return core.Invalid("query", "the query is not well-formed")
	}
	for name, values := range q {
		i := slices.IndexFunc(r.op.Query, func(p api.Parameter) bool { return p.Name == name })
		if i < 0 {
			return core.Invalid(printable(name), "unknown query parameter %q", printable(name))
		}
		p := r.op.Query[i]
		if len(values) > 1 && !p.Many {
			return core.Invalid(name, "%s is given more than once", name)
		}
		for _, v := range values {
			if err := checkParameter(p, v); err != nil {
				return err
			}
		}
	}
	r.query = q
	return nil
}

func checkParameter(p api.Parameter, v string) error {
	switch p.Type {
	case api.Integer:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return core.Invalid(p.Name, "%s is a whole number", p.Name)
		}
		if n < p.Min || (p.Max != 0 && n > p.Max) {
			if p.Max == 0 {
				return core.Invalid(p.Name, "%s is at least %d", p.Name, p.Min)
			}
			return core.Invalid(p.Name, "%s is from %d to %d", p.Name, p.Min, p.Max)
		}
	case api.Boolean:
		if v != "true" && v != "false" {
			return core.Invalid(p.Name, "%s is true or false", p.Name)
		}
	case api.String:
		if !utf8.ValidString(v) {
			return core.Invalid(p.Name, "%s is not UTF-8", p.Name)
		}
		if p.MaxLength != 0 && utf8.RuneCountInString(v) > p.MaxLength {
			return core.Invalid(p.Name, "%s has at most %d characters", p.Name, p.MaxLength)
		}
		if len(p.Enum) > 0 && !slices.Contains(p.Enum, v) {
			return core.Invalid(p.Name, "%s %q is none of %s", p.Name, printable(v), strings.Join(offered(p), ", "))
		}
	}
	return nil
}

// offered returns those values of a parameter that mean something in this release. The others are taken, too, and match nothing.
func offered(p api.Parameter) []string {
	if p.Name != "state" {
		return p.Enum
	}
	return slices.DeleteFunc(slices.Clone(p.Enum), func(s string) bool { return slices.Contains(laterStates(), core.State(s)) })
}

// flag returns a boolean parameter; absent is false.
func (r *request) flag(name string) bool { return r.query.Get(name) == "true" }

// number returns an integer parameter that parseQuery has checked.
func (r *request) number(name string, absent int64) int64 {
	n, err := strconv.ParseInt(r.query.Get(name), 10, 64)
	if err != nil {
		return absent
	}
	return n
}

// defaultLimit is the size of a page whose size isn't asked for.
const defaultLimit = 100

func (r *request) limit() int { return int(r.number("limit", defaultLimit)) }

func (r *request) page() store.Page {
	return store.Page{Cursor: r.query.Get("cursor"), Limit: r.limit()}
}

// printable makes a caller's text fit to be shown back: UTF-8 and short.
func printable(s string) string { return shorten(s, 64) }

// shorten makes a caller's text printable, and cuts it at so many characters.
func shorten(s string, most int) string {
	out := []rune(strconv.QuoteToGraphic(s))
	out = out[1 : len(out)-1]
	if len(out) > most {
		return string(out[:most]) + "…"
	}
	return string(out)
}

// moment returns a parameter that is a moment; absent is zero. The first moment of all is the next one: zero would be none.
func (r *request) moment(name string) (time.Time, error) {
	text := r.query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, core.Invalid(name, "%s is a moment such as 2026-01-02T15:04:05Z", name)
	}
	if at.IsZero() {
		at = at.Add(1)
	}
	return at, nil
}
