// Package failpoint breaks the program on purpose at named points: return an error, delay, or die on the spot.
//
// A point costs nothing in a release: without the build tag "failpoint" Hit is an empty function, and Clock hands back what it is given. With it, points are armed
// by the environment variable SHOAL_FAILPOINTS when the program starts, as a list "name=action;name=action", where an
// action is
//
//	kill          kill -9 of the own process, as a power cut would do
//	error         return an error of code internal
//	delay:500ms   wait
//	2*kill        the same on the second hit only; any number
//	faster:5      let time pass so many times as fast, at points that are clocks
//
// Every point is listed in Names, so that a test can walk all of them; a test holds the list against the code.
package failpoint
