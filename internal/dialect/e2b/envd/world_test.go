package envd_test

import "shoal/internal/control"

// acme is the caller of every test.
var acme = control.Principal{Tenant: "acme", Sandbox: boxID}
