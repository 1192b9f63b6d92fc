// Package sqlite keeps Shoal's records in one SQLite file, through a driver that needs no C library.
//
// # Writers and durability
//
// The file is in write-ahead-log mode. Readers have a pool of connections of their own, each transaction seeing one
// moment, and never wait for a writer. Writers have two connections that share one lock of this process, so that at most
// one writes:
//
//   - Update commits with synchronous=FULL: the log is flushed to the disk before it returns.
//   - UpdateRelaxed commits with synchronous=NORMAL: the log is written, which a killed process survives, and not flushed.
//
// Mixing them is safe. Both append to the same log, whose frames carry a running checksum: after a power cut the database
// is a prefix of the history, never a history with a hole. And since a flush covers the whole file, whichever connection
// wrote to it, each Update also makes durable every UpdateRelaxed that returned before it. What a power cut can take is only
// the relaxed transactions after the last Update. Copying the log into the database (a checkpoint) flushes the log first on
// both connections.
//
// It knows nothing of what the records mean: no rule of the state machine is here, only keys, uniqueness and order. A
// second process must not open the same file: the server's lock on its data directory sees to that.
//
// Start reading at store.go, then read.go and write.go; errors.go is where SQLite's errors end.
package sqlite
