// Package obs is how the server tells operators what it does: the logger, the metrics, and a type for what neither may show.
//
// It must not decide anything, and keeps no global logger or registry: cmd makes one of each and hands them on. Metrics take
// our own nouns, so that no other package needs to know the metrics library. Start reading at metrics.go.
package obs
