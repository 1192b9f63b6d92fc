package core

// Clocks says which clocks of usage run for a sandbox in a state.
type Clocks struct {
	// Awake: its processes may run, so it has its vcpus.
	Awake bool
	// Memory: its memory is kept in RAM, so it has its memory_bytes.
	Memory bool
	// Kept: its files are kept on the node.
	Kept bool
}

// clocks is the whole rule of what counts when: a state that is not here counts nothing. A sandbox that is being created does
// not count yet, since its caller can't use it; one that failed keeps its files until it is deleted.
var clocks = map[State]Clocks{
	StateRunning: {Awake: true, Memory: true, Kept: true},
	StateFrozen:  {Memory: true, Kept: true},
	StateStandby: {Kept: true},
	StateStopped: {Kept: true},
	StateFailed:  {Kept: true},
}

// ClocksOf returns which clocks run in a state.
func ClocksOf(s State) Clocks { return clocks[s] }
