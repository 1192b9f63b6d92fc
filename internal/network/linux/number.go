package linux

import (
	"fmt"
	"strconv"
	"strings"

	"shoal/internal/core"
)

// numberBlock is how many numbers are set aside in the kernel at a time.
const numberBlock = 1024

// numbers hands out slot numbers, rising, so that an address isn't used again while old events or flows may mean its
// last owner. Driver.mu guards it.
type numbers struct {
	// last is the number given out last, reserved the highest one that the kernel remembers as possibly used.
	last, reserved uint32
	used           map[uint32]struct{}
	// reserve makes the kernel remember a new highest number.
	reserve func(uint32) error
}

// take returns a number that nothing has now.
func (n *numbers) take() (uint32, error) {
	if len(n.used) >= maxNumber {
		return 0, core.Errorf(core.CodeExhausted, "this node has no network slot left")
	}
	next := n.last
	for {
		next = next%maxNumber + 1
		if _, used := n.used[next]; !used {
			break
		}
	}
	if next > n.reserved || next < n.last {
		reserved := min(next+numberBlock, maxNumber)
		if err := n.reserve(reserved); err != nil {
			return 0, fmt.Errorf("set slot numbers aside: %w", err)
		}
		n.reserved = reserved
	}
	n.last = next
	n.used[next] = struct{}{}
	return next, nil
}

// give returns a number whose interface is gone.
func (n *numbers) give(number uint32) { delete(n.used, number) }

// The router's lo carries, as its alias, the name of the server for the eye and the highest number that may have been
// used.

func routerAlias(name string, reserved uint32) string {
	return "shoal router " + name + " " + strconv.FormatUint(uint64(reserved), 10)
}

// parseRouterAlias returns the highest number that may have been used, 0 if the alias says none.
func parseRouterAlias(alias string) uint32 {
	fields := strings.Fields(alias)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(fields[len(fields)-1], 10, 32)
	if err != nil || n > maxNumber {
		return 0
	}
	return uint32(n)
}
