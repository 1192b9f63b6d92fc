package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"shoal/internal/core"
)

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		first, err := turns.take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := turns.take(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		second := make(chan func(), 1)
		go func() {
			done, err := turns.take(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			second <- done
		}()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.take(short, "a"); !core.IsCode(err, core.CodeTimeout) {
			t.Errorf("third: %v, want timeout", err)
		}
		select {
		case <-second:
			t.Fatal("two have the turn")
		default:
		}
		first()
		(<-second)()
		if len(turns.held) != 0 {
			t.Errorf("%d turns are kept", len(turns.held))
		}
	})
}
