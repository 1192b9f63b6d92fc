-- +goose Up
CREATE TABLE operation (
    id            TEXT    NOT NULL PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    target        TEXT,
    result        TEXT,
    intent        TEXT    NOT NULL,
    step          TEXT    NOT NULL,
    percent       INTEGER NOT NULL,
    bytes_done    INTEGER NOT NULL,
    bytes_total   INTEGER NOT NULL,
    actor_kind    TEXT    NOT NULL,
    actor_id      TEXT    NOT NULL,
    created_at    INTEGER,
    ended_at      INTEGER,
    error_code    TEXT    NOT NULL,
    error_message TEXT    NOT NULL
) STRICT;

CREATE INDEX operation_by_tenant ON operation (tenant, created_at, id);
CREATE INDEX operation_running ON operation (created_at, id) WHERE state = 'running';
CREATE INDEX operation_ended ON operation (tenant, ended_at, id) WHERE state <> 'running';

-- +goose Down
DROP TABLE operation;
