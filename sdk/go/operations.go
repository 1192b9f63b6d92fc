package shoal

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"shoal/api"
)

// Operations finds, waits for and cancels long work.
type Operations struct{ c *Client }

// Operations returns the calls on operations.
func (c *Client) Operations() Operations { return Operations{c} }

// OperationsOptions selects operations. A zero field selects nothing out.
type OperationsOptions struct {
	States []OperationState
	// Kinds are such as "template.import".
	Kinds []string
}

// List returns the tenant's operations, newest first. After an error it ends.
func (o Operations) List(ctx context.Context, f OperationsOptions) iter.Seq2[Operation, error] {
	q := url.Values{}
	for _, s := range f.States {
		q.Add("state", string(s))
	}
	for _, k := range f.Kinds {
		q.Add("kind", k)
	}
	return pages(func(cursor string) ([]Operation, string, error) {
		var page api.OperationList
		err := o.c.do(ctx, call{method: http.MethodGet, path: "/v1/operations", query: withCursor(q, cursor)}, &page)
		return page.Operations, page.NextCursor, err
	})
}

// Get returns an operation as it stands.
func (o Operations) Get(ctx context.Context, id string) (Operation, error) {
	p, err := path("v1", "operations", id)
	if err != nil {
		return Operation{}, err
	}
	var out Operation
	return out, o.c.do(ctx, call{method: http.MethodGet, path: p}, &out)
}

// Cancel ends an operation that runs. One that has ended keeps its state.
func (o Operations) Cancel(ctx context.Context, id string) error {
	p, err := path("v1", "operations", id)
	if err != nil {
		return err
	}
	return o.c.do(ctx, call{method: http.MethodDelete, path: p}, nil)
}

// Follow returns an operation as it gets on; the last one has ended. A connection that breaks off is made anew, for up to 3 minutes, unless
// MaxRetries forbids it. After an error it ends, and the operation may go on.
func (o Operations) Follow(ctx context.Context, id string) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		t := followTries{c: o.c}
		for {
			more, err := o.follow(ctx, id, &t, yield)
			if !more {
				return
			}
			if !t.again(ctx, err) {
				yield(Operation{}, err)
				return
			}
		}
	}
}

// follow yields what one connection brings. more is false at the end, and if the consumer has had enough.
func (o Operations) follow(ctx context.Context, id string, t *followTries, yield func(Operation, error) bool) (more bool, err error) {
	p, err := path("v1", "operations", id)
	if err != nil {
		return true, err
	}
	lines, err := o.c.lines(ctx, call{method: http.MethodGet, path: p})
	if err != nil {
		return true, err
	}
	defer func() { _ = lines.close() }()
	for {
		var m api.OperationMessage
		if err := lines.next(&m); err != nil {
			return true, err
		}
		if m.Type != api.OperationMessageTypeError {
			t.told()
		}
		switch m.Type {
		case api.OperationMessageTypeOperation:
			if !yield(m.Operation, nil) || m.Operation.State != OperationRunning {
				return false, nil
			}
		case api.OperationMessageTypeError:
			return true, fromAPI(m.Error)
		case api.OperationMessageTypeKeepalive:
		}
	}
}

// Wait returns an operation when it has ended, whether or not it succeeded: see OperationFailure.
func (o Operations) Wait(ctx context.Context, id string) (last Operation, err error) {
	for op, err := range o.Follow(ctx, id) {
		if err != nil {
			return last, err
		}
		last = op
	}
	return last, nil
}

// OperationFailure returns nil for an operation that has succeeded, else why it came to nothing, as an *Error.
func OperationFailure(op Operation) error {
	switch op.State {
	case OperationSucceeded:
		return nil
	case OperationRunning:
		return &Error{Code: CodeConflict, Message: "the operation is still running"}
	case OperationFailed, OperationCanceled:
	}
	return &Error{Code: Code(op.Error.Code), Message: op.Error.Message}
}
