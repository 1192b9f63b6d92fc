package files

import (
	"container/heap"
	"errors"
	"io"
	"slices"
)

// MaxPage is the most files that a page has.
const MaxPage = 1000

// Smallest returns the at most limit smallest names after the given one, in order. next returns some names of a directory, and io.EOF
// behind the last. A directory of any size takes no more memory than the page.
func Smallest(next func() ([]string, error), after string, limit int) ([]string, error) {
	var kept largestFirst
	for {
		batch, err := next()
		for _, n := range batch {
			switch {
			case n <= after:
			case len(kept) < limit:
				heap.Push(&kept, n)
			case n < kept[0]:
				kept[0] = n
				heap.Fix(&kept, 0)
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(batch) == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(kept)
	return kept, nil
}

// largestFirst is a heap of names.
type largestFirst []string

func (h largestFirst) Len() int           { return len(h) }
func (h largestFirst) Less(i, j int) bool { return h[i] > h[j] }
func (h largestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds a name, for container/heap.
func (h *largestFirst) Push(v any) { *h = append(*h, v.(string)) }

// Pop takes the last name off, for container/heap.
func (h *largestFirst) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}
