package files

import "strings"

// The guest agent writes a file beside its place until it is whole, by one of these names: TempNew where there was nothing before,
// TempOld where there was something. tempRandom letters follow.
const (
	TempNew    = ".shoal-new-"
	TempOld    = ".shoal-old-"
	tempRandom = 26
)

// Temporary reports whether a name is that of a file that is not whole yet.
func Temporary(name string) bool {
	return len(name) == len(TempNew)+tempRandom && (strings.HasPrefix(name, TempNew) || strings.HasPrefix(name, TempOld))
}
