package envd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/e2b/envd/filesystempb"
	"shoal/internal/dialect/e2b/envd/processpb"
)

// aboutUser turns an error that blames the user into what clients are told of one who doesn't exist.
func aboutUser(err error, user string) error {
	var e *core.Error
	if errors.As(err, &e) && e.Code == core.CodeInvalid && e.Field == "user" {
		return badUser(user)
	}
	return err
}

// outside turns an error of finding the sandbox itself into what clients take for its end. It was there when the call was let in: that it is gone
// by now must not look as if a file or a process in it were missing.
func outside(err error) error {
	var e *core.Error
	if errors.As(err, &e) && e.Field == "" && (e.Code == core.CodeNotFound || e.Code == core.CodeConflict) {
		return &core.Error{Code: core.CodeUnavailable, Message: "the sandbox is not running any more: " + e.Message, Err: e}
	}
	return err
}

// public returns what the caller may see of an error, and notes it for the log.
func (h *handler) public(ctx context.Context, err error) *core.Error {
	return dialect.CallOf(ctx).Failed(dialect.AtTheEnd(h.closing.Err() != nil, err))
}

// rpcError returns an error in the form of the Connect protocol.
func (h *handler) rpcError(ctx context.Context, err error) error {
	var known *connect.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := h.public(ctx, err)
	return connect.NewError(connectCode(e.Code), errors.New(e.Message))
}

func connectCode(c core.Code) connect.Code {
	switch c {
	case core.CodeInvalid:
		return connect.CodeInvalidArgument
	case core.CodeUnauthenticated:
		return connect.CodeUnauthenticated
	case core.CodeDenied:
		return connect.CodePermissionDenied
	case core.CodeNotFound:
		return connect.CodeNotFound
	case core.CodeExists:
		return connect.CodeAlreadyExists
	case core.CodeConflict:
		return connect.CodeFailedPrecondition
	case core.CodeQuota, core.CodeExhausted:
		return connect.CodeResourceExhausted
	case core.CodeUnsupported:
		return connect.CodeUnimplemented
	case core.CodeUnavailable:
		return connect.CodeUnavailable
	case core.CodeTimeout:
		return connect.CodeDeadlineExceeded
	case core.CodeCanceled:
		return connect.CodeCanceled
	case core.CodeDataLoss:
		return connect.CodeDataLoss
	case core.CodeInternal:
	}
	return connect.CodeInternal
}

// statusClosed is what proxies say of a client that went away.
const statusClosed = 499

// status is the HTTP status of an error outside the Connect protocol.
func (h *handler) status(e *core.Error) int {
	switch e.Code {
	case core.CodeInvalid:
		return http.StatusBadRequest
	case core.CodeUnauthenticated:
		return http.StatusUnauthorized
	case core.CodeDenied:
		return http.StatusForbidden
	case core.CodeNotFound:
		return http.StatusNotFound
	case core.CodeExists, core.CodeConflict:
		return http.StatusConflict
	case core.CodeQuota:
		return http.StatusTooManyRequests
	case core.CodeExhausted:
		if e.Field == "path" {
			return http.StatusInsufficientStorage // the sandbox's own disk, which no waiting mends
		}
		return http.StatusServiceUnavailable
	case core.CodeUnsupported:
		return http.StatusNotImplemented
	case core.CodeUnavailable:
		if h.closing.Err() != nil {
			return http.StatusServiceUnavailable
		}
		return http.StatusBadGateway // by this clients know that the sandbox is gone
	case core.CodeTimeout:
		return http.StatusGatewayTimeout
	case core.CodeCanceled:
		return statusClosed
	case core.CodeDataLoss, core.CodeInternal:
	}
	return http.StatusInternalServerError
}

// Refuse answers a request that is not let in, with an error that its caller may see, in the form that its client reads.
func Refuse(w http.ResponseWriter, r *http.Request, status int, e *core.Error) {
	rpc := strings.HasPrefix(r.URL.Path, "/"+processpb.ProcessName+"/") || strings.HasPrefix(r.URL.Path, "/"+filesystempb.FilesystemName+"/")
	if form := connect.NewErrorWriter(); rpc && form.IsSupported(r) {
		_ = form.Write(w, r, connect.NewError(connectCode(e.Code), errors.New(e.Message))) // a client that is gone does not read it
		return
	}
	writeError(w, r, status, e)
}

// errorBody is an error in the form of plain HTTP.
type errorBody struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// writeError answers with an error that the caller may see.
func writeError(w http.ResponseWriter, _ *http.Request, status int, e *core.Error) {
	header := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Disposition", "Accept-Ranges"} {
		header.Del(name)
	}
	writeJSON(w, status, errorBody{Code: status, Message: e.Message})
}

// writeJSON answers with a value that can be encoded. A client that is gone does not read it.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"code":500,"message":"internal error"}`)
	}
	// With its length an answer is whole at once, also one that is given while the request still comes: some clients read no further.
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
