package control

import (
	"context"
	"io"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// Spool keeps what callers upload, each tenant's apart, until it is used or too old. Its methods may be used from many goroutines.
// Errors are *core.Error: not_found, quota for what is too much for a tenant, exhausted if the disk is full, invalid for what is too
// large at all.
type Spool interface {
	// Put keeps what r has, whole and durably or not at all. An error of r is passed on.
	Put(ctx context.Context, tenant core.TenantID, r io.Reader) (core.Upload, error)
	// Path is where an upload lies on this machine.
	Path(tenant core.TenantID, id core.UploadID) (string, error)
	// Delete removes an upload; one that is not there is removed already. DeleteAll removes all of a tenant's.
	Delete(tenant core.TenantID, id core.UploadID) error
	DeleteAll(tenant core.TenantID) error
	// Expire removes uploads that are too old, but for those that keep says are needed.
	Expire(now time.Time, keep func(core.TenantID, core.UploadID) bool) error
}

// noSpool keeps nothing.
type noSpool struct{}

func (noSpool) Put(context.Context, core.TenantID, io.Reader) (core.Upload, error) {
	return core.Upload{}, core.Errorf(core.CodeUnsupported, "this server takes no uploads")
}

func (noSpool) Path(core.TenantID, core.UploadID) (string, error) {
	return "", core.Errorf(core.CodeNotFound, "no such upload")
}
func (noSpool) Delete(core.TenantID, core.UploadID) error                       { return nil }
func (noSpool) DeleteAll(core.TenantID) error                                   { return nil }
func (noSpool) Expire(time.Time, func(core.TenantID, core.UploadID) bool) error { return nil }

// uploads looks after what callers upload. Its exported methods are Service's.
type uploads struct {
	*deps
	spool Spool
}

// PutUpload keeps an archive for one use: for an hour, or until it is used.
func (u *uploads) PutUpload(ctx context.Context, p Principal, r io.Reader) (core.Upload, error) {
	if err := p.may("PutUpload"); err != nil {
		return core.Upload{}, err
	}
	if err := p.needKey(); err != nil {
		return core.Upload{}, err
	}
	return u.spool.Put(ctx, p.Tenant, r)
}

// DeleteUpload removes an upload that is not used yet.
func (u *uploads) DeleteUpload(ctx context.Context, p Principal, id core.UploadID) error {
	if err := p.may("DeleteUpload"); err != nil {
		return err
	}
	if err := p.needKey(); err != nil {
		return err
	}
	if _, err := u.spool.Path(p.Tenant, id); err != nil {
		return err
	}
	needed, err := u.needed(ctx)
	if err != nil {
		return err
	}
	if needed[id] {
		return core.Errorf(core.CodeConflict, "the upload is being used: cancel the operation that does")
	}
	return u.spool.Delete(p.Tenant, id)
}

// needed are the uploads that operations need.
func (u *uploads) needed(ctx context.Context) (map[core.UploadID]bool, error) {
	ids := map[core.UploadID]bool{}
	err := u.store.View(ctx, func(r store.Reader) error {
		running, err := runningOperations(r)
		for _, op := range running {
			ids[core.UploadID(op.Target[targetUpload])] = true
		}
		return err
	})
	return ids, err
}

// uploadsEvery is how often is looked for uploads that are too old.
const uploadsEvery = 10 * time.Minute

// loop removes uploads that nobody has used.
func (u *uploads) loop(ctx context.Context) {
	for {
		needed, err := u.needed(ctx)
		if err == nil {
			err = u.spool.Expire(u.clock.Now(), func(_ core.TenantID, id core.UploadID) bool { return needed[id] })
		}
		if err != nil && ctx.Err() == nil {
			u.log.Warn("remove old uploads", slog.Any("err", err))
		}
		if !pause(ctx, u.clock, uploadsEvery) {
			return
		}
	}
}
