-- Rows of usage lie by day: most questions and all writes are about a few days.

-- +goose Up
CREATE TABLE usage_by_day (
    day          INTEGER NOT NULL,
    tenant       TEXT    NOT NULL,
    sandbox      TEXT    NOT NULL,
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
    PRIMARY KEY (day, tenant, sandbox)
) STRICT, WITHOUT ROWID;
INSERT INTO usage_by_day SELECT day, tenant, sandbox, awake_ms, kept_ms, vcpu_ms, memory_large, memory_small, disk_large, disk_small,
    measured_ms, execs, exec_ms FROM usage_day;
DROP TABLE usage_day;
ALTER TABLE usage_by_day RENAME TO usage_day;
DROP INDEX usage_meter_open;
CREATE INDEX usage_meter_open ON usage_meter (sandbox, since) WHERE ended IS NULL;

-- +goose Down
CREATE INDEX usage_day_by_day ON usage_day (day);
