package httpapi

import (
	"net/http"

	"shoal/api"
	"shoal/internal/core"
)

func (a keyAPI) createKey(w http.ResponseWriter, r *request) error {
	var body api.CreateKeyRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	scopes, err := core.ParseScopes("scopes", body.Scopes)
	if err != nil {
		return err
	}
	if body.Scopes != nil && scopes == 0 {
		return core.Invalid("scopes", "a key has at least one scope: leave scopes out for what an ordinary key may do")
	}
	spec := core.KeySpec{Name: body.Name, Dialect: core.KeyDialect(body.Dialect), Scopes: scopes, Labels: body.Labels}
	if body.ExpiresInSeconds != nil {
		if *body.ExpiresInSeconds < 1 {
			return core.Invalid("expires_in_seconds", "expires_in_seconds is at least 1; for a key that doesn't expire, leave it out")
		}
		if spec.ExpiresIn, err = seconds("expires_in_seconds", float64(*body.ExpiresInSeconds)); err != nil {
			return err
		}
	}
	key, secret, err := a.control.NewKey(r.Context(), r.principal, spec)
	if err != nil {
		return err
	}
	r.target = string(key.ID)
	out := encodeKey(key)
	out.Secret = secret.Reveal()
	return writeJSON(w, http.StatusCreated, out)
}

func (a keyAPI) listKeys(w http.ResponseWriter, r *request) error {
	list, next, err := a.control.ListKeys(r.Context(), r.principal, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.KeyList{Keys: convert(list, encodeKey), NextCursor: next})
}

func (a keyAPI) deleteKey(w http.ResponseWriter, r *request) error {
	id, err := r.ref("id", "key")
	if err != nil {
		return err
	}
	if err := a.control.DeleteKey(r.Context(), r.principal, core.KeyID(id)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// encodeKey encodes a key without its secret.
func encodeKey(k core.Key) api.Key {
	scopes := convert(k.Scopes.List(), func(s core.Scope) string { return string(s) })
	return api.Key{
		ID: string(k.ID), Name: k.Name, Admin: k.Admin, Scopes: scopes, Labels: k.Labels, Dialect: string(k.Dialect), ParentID: string(k.Parent),
		LastUsedAt: k.UsedAt, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt,
	}
}
