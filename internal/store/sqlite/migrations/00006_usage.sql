-- Usage is counted in milliseconds, and in bytes × milliseconds as large × 65536 + small.

-- +goose Up
CREATE TABLE usage_meter (
    sandbox      TEXT    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    template     TEXT    NOT NULL,
    labels       TEXT,
    since        INTEGER NOT NULL,
    awake        INTEGER NOT NULL,
    memory       INTEGER NOT NULL,
    kept         INTEGER NOT NULL,
    milli_vcpus  INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    kept_bytes   INTEGER NOT NULL,
    ended        INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_meter_by_tenant ON usage_meter (tenant, sandbox);
CREATE INDEX usage_meter_open ON usage_meter (sandbox) WHERE ended IS NULL;
CREATE INDEX usage_meter_ended ON usage_meter (tenant, ended) WHERE ended IS NOT NULL;

CREATE TABLE usage_day (
    tenant       TEXT    NOT NULL,
    sandbox      TEXT    NOT NULL,
    day          INTEGER NOT NULL,
    awake_ms     INTEGER NOT NULL,
    kept_ms      INTEGER NOT NULL,
    vcpu_ms      INTEGER NOT NULL,
    memory_large INTEGER NOT NULL,
    memory_small INTEGER NOT NULL,
    disk_large   INTEGER NOT NULL,
    disk_small   INTEGER NOT NULL,
    measured_ms  INTEGER NOT NULL,
    execs        INTEGER NOT NULL,
    exec_ms      INTEGER NOT NULL,
    PRIMARY KEY (tenant, sandbox, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_day_by_day ON usage_day (day);

-- What runs has been awake since it was started. Since when a machine is dead nobody has written down: it counts nothing yet.
INSERT INTO usage_meter (sandbox, tenant, name, template, labels, since, awake, memory, kept, milli_vcpus, memory_bytes, kept_bytes)
SELECT id, tenant, name, template_name, labels, coalesce(started_at, created_at) / 1000000, state = 'running', state = 'running', 1,
       cast(round(vcpus * 1000) AS INTEGER), memory_bytes, -1
FROM sandbox WHERE state IN ('running', 'failed');

-- +goose Down
DROP TABLE usage_day;
DROP TABLE usage_meter;
