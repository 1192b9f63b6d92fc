-- +goose Up
CREATE TABLE checkpoint (
    id            TEXT    NOT NULL PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    sandbox       TEXT    NOT NULL,
    parent        TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    cause         TEXT    NOT NULL,
    comment       TEXT    NOT NULL,
    template_id   TEXT    NOT NULL,
    template_name TEXT    NOT NULL,
    config        TEXT,
    resources     TEXT,
    labels        TEXT,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER,
    origin        TEXT    NOT NULL,
    written_bytes INTEGER NOT NULL
) STRICT;

CREATE INDEX checkpoint_by_tenant ON checkpoint (tenant, created_at, id);
CREATE INDEX checkpoint_by_sandbox ON checkpoint (sandbox, created_at, id);
CREATE INDEX checkpoint_by_parent ON checkpoint (parent) WHERE parent <> '';
CREATE INDEX checkpoint_by_expiry ON checkpoint (expires_at) WHERE expires_at IS NOT NULL;
-- What a tenant has of them, without reading them.
CREATE INDEX checkpoint_size ON checkpoint (tenant, origin, written_bytes) WHERE state <> 'deleting';

ALTER TABLE sandbox ADD COLUMN head TEXT NOT NULL DEFAULT '';
CREATE INDEX sandbox_by_head ON sandbox (head) WHERE head <> '';

ALTER TABLE keyed_call ADD COLUMN checkpoint TEXT NOT NULL DEFAULT '';
CREATE INDEX keyed_call_by_checkpoint ON keyed_call (checkpoint) WHERE checkpoint <> '';

-- +goose Down
DROP INDEX keyed_call_by_checkpoint;
ALTER TABLE keyed_call DROP COLUMN checkpoint;
DROP INDEX sandbox_by_head;
ALTER TABLE sandbox DROP COLUMN head;
DROP TABLE checkpoint;
