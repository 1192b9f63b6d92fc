package storetest

import (
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// testPageSize fills each list with records so large that a page has few of them, and one in the middle that is larger than a
// page by itself.
func testPageSize(t *testing.T, open Open) {
	t.Helper()
	half := strings.Repeat("x", 512<<10)
	// As JSON has it, this is six times as long, and larger than a page.
	zeros := strings.Repeat("\x01", 1<<20)
	texts := make([]string, 20)
	for i := range texts {
		texts[i] = half
	}
	texts[10] = zeros

	s := start(t, open)
	b := newSandbox(alice)
	s.put(b)
	var boxes, execs, templates []string
	s.update(func(tx store.Tx) error {
		boxes, execs, templates = nil, nil, nil
		for i, text := range texts {
			at := epoch().Add(-time.Duration(i) * time.Second)
			box, e, tmpl := newSandbox(bob), newExec(b.ID), newTemplate(alice, numbered("t", 100+i))
			box.Env, box.CreatedAt = map[string]string{"A": text}, at
			e.Spec.Cmd, e.StartedAt = []string{text}, at
			tmpl.Config.Env = map[string]string{"A": text}
			if err := tx.PutSandbox(box); err != nil {
				return err
			}
			if err := tx.PutExec(e); err != nil {
				return err
			}
			if _, err := tx.PutTemplate(tmpl); err != nil {
				return err
			}
			if _, err := tx.AppendEvent(core.Event{
				Tenant: alice, Sandbox: b.ID, Type: core.EventSandboxFailed, Data: map[string]string{"reason": text},
			}); err != nil {
				return err
			}
			boxes, execs, templates = append(boxes, string(box.ID)), append(execs, string(e.ID)), append(templates, string(tmpl.ID))
		}
		return nil
	})
	t.Run("sandboxes", func(t *testing.T) {
		walk(t, boxes, store.SandboxSize, func(b core.Sandbox) string { return string(b.ID) },
			func(p store.Page) ([]core.Sandbox, string, error) { return s.list(bob, store.SandboxFilter{}, p) })
	})
	t.Run("execs", func(t *testing.T) {
		walk(t, execs, store.ExecSize, func(e core.Exec) string { return string(e.ID) },
			func(p store.Page) (list []core.Exec, next string, err error) {
				s.view(func(r store.Reader) error { list, next, err = r.ListExecs(b.ID, store.ExecFilter{}, p); return nil })
				return list, next, err
			})
	})
	t.Run("templates", func(t *testing.T) {
		walk(t, templates, store.TemplateSize, func(tmpl core.Template) string { return string(tmpl.ID) },
			func(p store.Page) (list []core.Template, next string, err error) {
				s.view(func(r store.Reader) error {
					list, next, err = r.ListTemplates(alice, store.TemplateFilter{}, p)
					return nil
				})
				return list, next, err
			})
	})
	t.Run("events", func(t *testing.T) { s.testEventsSize(t, len(texts)) })
}

// walk reads a list to its end and checks that every page is as large as it may be and no larger, and that all comes once.
func walk[T any](t *testing.T, want []string, size func(T) int, id func(T) string, read func(store.Page) ([]T, string, error)) {
	t.Helper()
	var got []string
	page := store.Page{Limit: 1000}
	for pages := 0; ; pages++ {
		list, next, err := read(page)
		if err != nil {
			t.Fatal(err)
		}
		checkSize(t, list, size, next != "")
		for _, v := range list {
			got = append(got, id(v))
		}
		if next == "" {
			if pages < 2 {
				t.Errorf("all came in %d pages", pages+1)
			}
			break
		}
		page.Cursor = next
	}
	wantSame(t, got, want)
}

// checkSize fails the test if a page has a record after it was full, or has room for another one and another follows.
func checkSize[T any](t *testing.T, list []T, size func(T) int, more bool) {
	t.Helper()
	if len(list) == 0 {
		t.Fatal("a page is empty")
	}
	total := 0
	for _, v := range list[:len(list)-1] {
		total += size(v)
	}
	if total >= store.MaxPageBytes {
		t.Errorf("%d records of %d bytes and one more", len(list)-1, total)
	}
	if total += size(list[len(list)-1]); more && total < store.MaxPageBytes {
		t.Errorf("a page of %d bytes is not the last", total)
	}
}

func (s *suite) testEventsSize(t *testing.T, n int) {
	t.Helper()
	after := int64(0)
	for {
		list, _ := s.events(alice, "", after, 1000)
		if len(list) == 0 {
			break
		}
		last := list[len(list)-1].Seq
		if last != after+int64(len(list)) {
			t.Fatalf("after %d came %v", after, numbers(list))
		}
		after = last
		checkSize(t, list, store.EventSize, after < int64(n))
	}
	if after != int64(n) {
		t.Fatalf("the events ended at %d of %d", after, n)
	}
}
