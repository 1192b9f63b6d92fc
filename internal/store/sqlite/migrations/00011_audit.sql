-- +goose Up
CREATE TABLE audit_head (
    tenant TEXT    NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    tenant     TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    at         INTEGER,
    actor_kind TEXT    NOT NULL,
    actor_id   TEXT    NOT NULL,
    actor_name TEXT    NOT NULL,
    remote     TEXT    NOT NULL,
    operation  TEXT    NOT NULL,
    target     TEXT    NOT NULL,
    code       TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_by_actor ON audit (tenant, actor_id, seq);
CREATE INDEX audit_failed ON audit (tenant, seq) WHERE code <> '';
CREATE INDEX audit_by_time ON audit (at);

-- +goose Down
DROP TABLE audit;
DROP TABLE audit_head;
