package httpapi

import (
	"io"
	"net/http"
	"runtime"

	"shoal/api"
	"shoal/internal/httpserve"
)

func (a serverAPI) getVersion(w http.ResponseWriter, _ *request) error {
	return writeJSON(w, http.StatusOK, api.Version{
		Version: a.options.Version, Commit: a.options.Commit, API: "v1",
		Go: runtime.Version(), Os: runtime.GOOS, Arch: runtime.GOARCH,
	})
}

func (a serverAPI) getHealth(w http.ResponseWriter, _ *request) error {
	return writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

func (a serverAPI) getReadiness(w http.ResponseWriter, r *request) error {
	if err := a.ready.check(r.Context(), a.control.Ready); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

func (a serverAPI) getOpenAPI(w http.ResponseWriter, _ *request) error {
	return writeText(w, "application/yaml", api.OpenAPI())
}

func (a serverAPI) getErrorReference(w http.ResponseWriter, _ *request) error {
	text, err := api.ErrorsMarkdown()
	if err != nil {
		return err
	}
	return writeText(w, "text/markdown; charset=utf-8", text)
}

func writeText(w http.ResponseWriter, kind, text string) error {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	if _, err := io.WriteString(w, text); err != nil {
		return httpserve.Gone(err)
	}
	return nil
}
