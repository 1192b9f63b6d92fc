-- +goose Up
CREATE TABLE tenant (
    id           TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    labels       TEXT,
    quota        TEXT,
    created_at   INTEGER,
    suspended_at INTEGER,
    deleted_at   INTEGER,
    purged_at    INTEGER
) STRICT;

CREATE UNIQUE INDEX tenant_live_name ON tenant (name) WHERE deleted_at IS NULL;
CREATE INDEX tenant_by_creation ON tenant (created_at, id);
CREATE INDEX tenant_to_purge ON tenant (deleted_at) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

-- What a tenant has is summed up in the transaction of every create: from this index alone.
CREATE INDEX sandbox_held ON sandbox (tenant, state, vcpus, memory_bytes, disk_bytes) WHERE state <> 'deleted';
CREATE INDEX api_key_by_tenant ON api_key (tenant, created_at, id);

INSERT INTO tenant (id, name, created_at) VALUES ('default', 'default', CAST(strftime('%s', 'now') AS INTEGER) * 1000000000);
INSERT INTO tenant (id, name, created_at)
    SELECT tenant, tenant, CAST(strftime('%s', 'now') AS INTEGER) * 1000000000
    FROM (SELECT tenant FROM api_key UNION SELECT tenant FROM sandbox) WHERE tenant NOT IN ('default', 'system');

-- +goose Down
DROP INDEX api_key_by_tenant;
DROP INDEX sandbox_held;
DROP TABLE tenant;
