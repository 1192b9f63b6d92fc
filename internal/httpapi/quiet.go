package httpapi

import "net/http"

// quiet reports whether a call that went well is one of the many that a client makes to move data or to look: each would be a
// line of the log for a chunk of input, a file, or a moment of waiting. What begins, changes or ends a sandbox or an exec
// is not, and neither is any failure.
func quiet(r *request) bool {
	if r.code != "" || r.err != nil {
		return false
	}
	switch r.op.ID {
	case "writeExecStdin", "resizeExec", "writeFile", "removeFile", "makeDirectory", "moveFile":
		return true
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}
