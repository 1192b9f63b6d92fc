package wire

import "time"

// What follows is since version 6.

// ProcessesReply tells what runs in the sandbox, but for the agent itself. More counts those that are left out.
type ProcessesReply struct {
	Processes     []Process  `json:"processes"`
	Listeners     []Listener `json:"listeners"`
	MoreProcesses int64      `json:"more_processes,omitempty"`
	MoreListeners int64      `json:"more_listeners,omitempty"`
}

// Process is one process.
type Process struct {
	PID       int       `json:"pid"`
	Parent    int       `json:"parent"`
	UID       int       `json:"uid"`
	User      string    `json:"user,omitempty"`
	Command   Bytes     `json:"command"`
	Cut       bool      `json:"cut,omitempty"`
	StartedAt time.Time `json:"started_at"`
}

// Listener is a socket that waits for others.
type Listener struct {
	Proto   string `json:"proto"`
	Address string `json:"address"`
	Port    uint16 `json:"port"`
	PID     int    `json:"pid,omitempty"`
}
