package httpapi

import (
	"net/http"

	"shoal/api"
	"shoal/internal/core"
)

func (a templateAPI) putRegistry(w http.ResponseWriter, r *request) error {
	r.target = r.PathValue("host")
	var body api.PutRegistryRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	login, err := a.control.PutRegistryLogin(r.Context(), r.principal, core.RegistryLoginSpec{
		Host: r.PathValue("host"), Username: body.Username, Password: core.Secret(body.Password),
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeRegistry(login))
}

func (a templateAPI) getRegistry(w http.ResponseWriter, r *request) error {
	login, err := a.control.GetRegistryLogin(r.Context(), r.principal, r.PathValue("host"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeRegistry(login))
}

func (a templateAPI) listRegistries(w http.ResponseWriter, r *request) error {
	list, next, err := a.control.ListRegistryLogins(r.Context(), r.principal, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.RegistryList{Registries: convert(list, encodeRegistry), NextCursor: next})
}

func (a templateAPI) deleteRegistry(w http.ResponseWriter, r *request) error {
	r.target = r.PathValue("host")
	return noContent(w, a.control.DeleteRegistryLogin(r.Context(), r.principal, r.PathValue("host")))
}

// encodeRegistry encodes a kept login without its password.
func encodeRegistry(l core.RegistryLogin) api.Registry {
	return api.Registry{Host: l.Host, Username: l.Username, CreatedAt: l.CreatedAt, UpdatedAt: l.UpdatedAt}
}
