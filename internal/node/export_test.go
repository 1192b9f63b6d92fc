package node

// Suspected counts the sandboxes whose next sign of life is waited for.
func Suspected(n *Node) int {
	n.machines.mu.Lock()
	defer n.machines.mu.Unlock()
	count := 0
	for _, m := range n.machines.live {
		if m.suspected.Load() {
			count++
		}
	}
	return count
}
