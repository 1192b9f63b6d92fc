// Package fake is a network driver in memory, for tests that need no root.
//
// Kernel stands for what outlives a driver: slots and the programs that listen in them. A driver opened on the same
// Kernel finds them again, as after a restart. Connections are synchronous pipes in memory, so that tests can run in a
// synctest bubble; what is written has been read when Write returns. Faults are scripted with Driver.Inject.
//
// The package must not know any other driver. Start reading at kernel.go.
package fake
