// Package dialect is what the adapters for other vendors' wire protocols have in common: who may call, what is logged, and how a
// request ends. The adapters live below it, a folder each, and translate between a vendor's words and the use cases in control. They
// keep no state of their own.
//
// It knows no vendor's paths, bodies or error forms. Start with Config, which every adapter is made from, and Handler, which goes
// around it.
package dialect
