// Package pki is the installation's own certificate authority: it makes one, keeps its key in a directory, and issues the server's
// certificate from it, which is short-lived and made anew while the server serves. docs/adr/0007-own-ca.md says why.
//
// It knows no listener and no setting: it is told which names a certificate is for. Start with Open and Authority.Issuer.
package pki
