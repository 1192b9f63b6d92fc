package httpapi

import (
	"net/http"
	"regexp"
	"strings"
	"sync"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

func (a execAPI) cancelExec(w http.ResponseWriter, r *request) error {
	ref, id, err := r.exec()
	if err != nil {
		return err
	}
	return noContent(w, a.control.CancelExec(r.Context(), r.principal, ref, id))
}

func (a execAPI) signalExec(w http.ResponseWriter, r *request) error {
	ref, id, err := r.exec()
	if err != nil {
		return err
	}
	var body api.SignalExecRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	name, err := signalName(body.Signal)
	if err != nil {
		return err
	}
	return noContent(w, a.control.SignalExec(r.Context(), r.principal, ref, id, name))
}

func (a execAPI) resizeExec(w http.ResponseWriter, r *request) error {
	ref, id, err := r.exec()
	if err != nil {
		return err
	}
	var body api.ResizeExecRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	rows, cols, err := terminal(body.Rows, body.Cols)
	if err != nil {
		return err
	}
	return noContent(w, a.control.ResizeExec(r.Context(), r.principal, ref, id, rows, cols))
}

func (a execAPI) writeExecStdin(w http.ResponseWriter, r *request) error {
	ref, id, err := r.exec()
	if err != nil {
		return err
	}
	if isBinary(r.Request) {
		data, err := httpserve.ReadBody(w, r.Request, maxBody, a.options.Stall)
		if err != nil {
			return err
		}
		if len(data) == 0 && !r.flag("end") {
			return core.Invalid("body", "a body or end is needed")
		}
		return noContent(w, a.control.WriteExecStdin(r.Context(), r.principal, ref, id, data, r.flag("end")))
	}
	if r.query.Has("end") {
		return core.Invalid("end", "end is a field of the body unless that is application/octet-stream")
	}
	var body api.WriteExecStdinRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	if body.Data != "" && len(body.DataRaw) > 0 {
		return core.Invalid("data_raw", "give either data or data_raw")
	}
	data := api.Join(body.Data, body.DataRaw)
	if len(data) == 0 && !body.End {
		return core.Invalid("data", "data, data_raw or end is needed")
	}
	return noContent(w, a.control.WriteExecStdin(r.Context(), r.principal, ref, id, data, body.End))
}

var signalPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(SIG)?[A-Z][A-Z0-9+-]{0,15}$`) })

// signalName returns a signal's full name. Which ones there are, the guest agent knows.
func signalName(s string) (string, error) {
	if !signalPattern().MatchString(s) {
		return "", core.Invalid("signal", "signal is a name such as SIGTERM")
	}
	return "SIG" + strings.TrimPrefix(s, "SIG"), nil
}

// noContent answers a call that has nothing to tell.
func noContent(w http.ResponseWriter, err error) error {
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
