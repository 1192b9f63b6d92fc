package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
	shoal "shoal/sdk/go"
)

// manyRecords is how many sandboxes a server knows whose calls are measured.
const manyRecords = 10_000

// measureRecords starts another server on a database with 10,000 sandboxes, none of which runs, and measures calls by their whole way
// through HTTP.
func measureRecords(ctx context.Context, n int, first *server, _ *bare, r *report) (err error) {
	srv := &server{bin: first.bin, dir: first.dir + "-records", cgroup: serverCgroup + "-records", templates: noTemplates}
	if err := os.Mkdir(srv.dir, 0o711); err != nil {
		return err
	}
	ids, err := fillRecords(ctx, filepath.Join(srv.dir, "shoal.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.remove()) }()
	if err := srv.launch(ctx); err != nil {
		return err
	}
	srv.client.MaxRetries = -1
	const list, get, named = "list of 100 among 10,000", "get among 10,000", "get by name among 10,000"
	for i := range 10 * n {
		id := ids[i*7919%len(ids)]
		for _, call := range []struct {
			series string
			do     func() error
		}{
			{list, func() error { return firstPage(ctx, srv.client) }},
			{get, func() error { _, err := srv.client.Sandboxes().Get(ctx, string(id)); return err }},
			{named, func() error {
				_, err := srv.client.Sandboxes().Get(ctx, fmt.Sprintf("box-%d", i*7919%len(ids)))
				return err
			}},
		} {
			start := time.Now()
			if err := call.do(); err != nil {
				return fmt.Errorf("%s: %w", call.series, err)
			}
			r.series(call.series, "ms").since(start)
		}
		// Below the rate that a tenant may call at.
		if err := pause(ctx, 16*time.Millisecond); err != nil {
			return err
		}
	}
	for _, name := range []string{list, get, named} {
		s := r.find(name)
		s.finish()
		r.goal(name+", p99", s.P99, 10, "ms")
	}
	return nil
}

// firstPage reads the page that a list begins with by default, of 100.
func firstPage(ctx context.Context, c *shoal.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL+"/v1/sandboxes", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.APIKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var page api.SandboxList
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return err
	}
	if len(page.Sandboxes) != 100 {
		return fmt.Errorf("%s: the page has %d", resp.Status, len(page.Sandboxes))
	}
	return nil
}

// fillRecords makes the database of a server that has seen much.
func fillRecords(ctx context.Context, path string) (ids []core.SandboxID, err error) {
	db, err := sqlite.Open(ctx, sqlite.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	now := time.Now()
	err = db.Update(ctx, func(tx store.Tx) error {
		ids = nil
		for i := range manyRecords {
			sb := core.Sandbox{
				ID: core.SandboxID(core.NewID()), Tenant: core.DefaultTenant, Name: fmt.Sprintf("box-%d", i), Template: "t", TemplateName: "minimal",
				State: core.StateFailed, Failure: "it is only a record", Incarnation: 1, Epoch: 1, Node: "n", Persistent: true,
				Resources: core.Resources{VCPUs: 1, MemoryBytes: 512 * mib}, CreatedAt: now.Add(time.Duration(i) * time.Millisecond), StartedAt: now,
				Labels: map[string]string{"group": fmt.Sprint(i % 100), "app": "bench"},
			}
			if err := tx.PutSandbox(sb); err != nil {
				return err
			}
			ids = append(ids, sb.ID)
		}
		return nil
	})
	return ids, err
}
