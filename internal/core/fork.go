package core

// MaxForks is how many sandboxes one call may fork.
const MaxForks = 100

// ForkSpec is what a caller asks for when it forks a sandbox.
type ForkSpec struct {
	// Kind says what of the sandbox the forks have; it is disk if it is empty.
	Kind CheckpointKind
	// Count is how many there are to be. Names, if there are any, are one for each.
	Count int
	Names []string
	// Each is what holds for each of them. Its environment is added to the sandbox's; limits that it doesn't name are the sandbox's; all
	// else is as for any new sandbox. Name, Template, From and Once are not used.
	Each SandboxSpec
	// Once, unless it is nil, makes a repeat of the call return what the first one made.
	Once *Once
}
