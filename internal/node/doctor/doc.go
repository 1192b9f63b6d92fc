// Package doctor looks at a host and says in plain words whether it can run sandboxes: what it found, what is wrong, what
// that costs, and the command that mends it.
//
// It changes nothing and leaves nothing behind: what can only be known by trying is tried in a child or on a thread whose
// namespaces end with it. It must not know how its findings are shown, nor any driver: it knows what drivers need. Start
// reading at doctor.go; each check is one function beside its kin.
package doctor
