-- Times are unix nanoseconds, NULL where there is none. Columns with JSON hold maps and lists of strings.

-- +goose Up
CREATE TABLE reserved_id (
    id     TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sandbox (
    id              TEXT    NOT NULL PRIMARY KEY REFERENCES reserved_id (id),
    tenant          TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    template_id     TEXT    NOT NULL,
    template_name   TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    operation       TEXT    NOT NULL,
    operation_since INTEGER,
    incarnation     INTEGER NOT NULL,
    node            TEXT    NOT NULL,
    epoch           INTEGER NOT NULL,
    persistent      INTEGER NOT NULL,
    vcpus           REAL    NOT NULL,
    memory_bytes    INTEGER NOT NULL,
    disk_bytes      INTEGER NOT NULL,
    env             TEXT,
    labels          TEXT,
    created_at      INTEGER,
    started_at      INTEGER,
    expires_at      INTEGER,
    deleted_at      INTEGER,
    failure         TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX sandbox_live_name ON sandbox (tenant, name) WHERE name <> '' AND state <> 'deleted';
CREATE INDEX sandbox_by_tenant ON sandbox (tenant, created_at, id);
CREATE INDEX sandbox_by_expiry ON sandbox (expires_at) WHERE expires_at IS NOT NULL AND state <> 'deleted';
CREATE INDEX sandbox_by_deletion ON sandbox (deleted_at) WHERE state = 'deleted';

CREATE TABLE template (
    id         TEXT    NOT NULL PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    visibility TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    size_bytes INTEGER NOT NULL,
    packages   TEXT,
    user       TEXT    NOT NULL,
    workdir    TEXT    NOT NULL,
    env        TEXT,
    progress   TEXT    NOT NULL,
    percent    INTEGER NOT NULL,
    failure    TEXT    NOT NULL,
    created_at INTEGER,
    ready_at   INTEGER,
    UNIQUE (tenant, name, version)
) STRICT;

CREATE INDEX template_by_name ON template (name, version DESC, id);
CREATE INDEX template_by_state ON template (state);

CREATE TABLE exec (
    sandbox      TEXT    NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,
    id           TEXT    NOT NULL,
    cmd          TEXT,
    shell        TEXT    NOT NULL,
    cwd          TEXT    NOT NULL,
    env          TEXT,
    user         TEXT    NOT NULL,
    stdin        INTEGER NOT NULL,
    timeout      INTEGER NOT NULL,
    detach       INTEGER NOT NULL,
    tty          INTEGER NOT NULL,
    tty_rows     INTEGER NOT NULL,
    tty_cols     INTEGER NOT NULL,
    pid          INTEGER NOT NULL,
    outcome      TEXT    NOT NULL,
    exit_code    INTEGER,
    signal       TEXT    NOT NULL,
    started_at   INTEGER,
    ended_at     INTEGER,
    output_bytes INTEGER NOT NULL,
    output_from  INTEGER NOT NULL,
    processes    INTEGER NOT NULL,
    PRIMARY KEY (sandbox, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX exec_by_start ON exec (sandbox, started_at, id);
CREATE INDEX exec_running ON exec (sandbox, started_at, id) WHERE outcome = '';

CREATE TABLE event_head (
    tenant TEXT    NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    tenant     TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    sandbox    TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    at         INTEGER,
    actor_kind TEXT    NOT NULL,
    actor_id   TEXT    NOT NULL,
    data       TEXT,
    PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_by_sandbox ON event (tenant, sandbox, seq) WHERE sandbox <> '';

CREATE TABLE api_key (
    id         TEXT    NOT NULL PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    hash       TEXT    NOT NULL UNIQUE,
    admin      INTEGER NOT NULL,
    created_at INTEGER,
    expires_at INTEGER
) STRICT;

CREATE TABLE setting (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
