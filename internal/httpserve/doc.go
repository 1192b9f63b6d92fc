// Package httpserve is what every listener of the server does alike, whatever is spoken there: it takes connections and ends them
// with grace, gives replies deadlines, sets the headers that protect browsers, and bounds what strangers and tenants may ask.
//
// It knows no path and no body, and asks nobody who a caller is: it is told. Start with Serve, then Strangers.
package httpserve
