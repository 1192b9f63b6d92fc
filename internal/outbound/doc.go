// Package outbound makes the connections that the server makes because a tenant said where to: to a registry, the token service that it
// names, a host that either redirects to. Without it a tenant could reach, through the server, what the server can reach and the tenant
// can't: the host's own services, a cloud's metadata, the site's network, the control API.
//
// A name is resolved here, every address of it is judged, and the very address that was judged is dialed, so no second answer of a
// hostile name server counts. It knows nothing of tenants or of what is spoken over a connection. Start reading at guard.go; address.go
// has the ranges.
package outbound
