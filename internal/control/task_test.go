package control

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"shoal/internal/core"
)

func TestPersistTriesUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deps{clock: core.SystemClock{}, tasks: newTasks()}
		defer d.tasks.close()
		begun := time.Now()
		var tries, failures int
		var pauses []time.Duration
		d.persist(func(context.Context) error {
			pauses = append(pauses, time.Since(begun))
			if tries++; tries < 4 {
				return errors.New("busy")
			}
			return nil
		}, func(error) { failures++ })
		<-time.After(time.Hour) // on the bubble's clock
		synctest.Wait()
		if tries != 4 || failures != 3 || pauses[3] != 7*time.Second {
			t.Errorf("%d tries, %d failures, at %v", tries, failures, pauses)
		}
	})
}

func TestCloseEndsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deps{clock: core.SystemClock{}, tasks: newTasks()}
		tries := 0
		d.persist(func(context.Context) error { tries++; return errors.New("busy") }, func(error) {})
		synctest.Wait()
		d.tasks.close()
		if tries != 1 || !d.tasks.closing() {
			t.Errorf("%d tries, closing %v", tries, d.tasks.closing())
		}
		d.tasks.run(func(context.Context) { t.Error("work was started after the close") })
		synctest.Wait()
	})
}
