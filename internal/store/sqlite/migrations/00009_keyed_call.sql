-- +goose Up
CREATE TABLE keyed_call_head (
    tenant TEXT    NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE keyed_call (
    tenant  TEXT    NOT NULL,
    route   TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    digest  TEXT    NOT NULL,
    sandbox TEXT    NOT NULL,
    exec    TEXT    NOT NULL,
    fed     INTEGER NOT NULL,
    at      INTEGER,
    result  BLOB,
    PRIMARY KEY (tenant, route, key)
) STRICT;

CREATE UNIQUE INDEX keyed_call_by_seq ON keyed_call (tenant, seq);
CREATE INDEX keyed_call_by_time ON keyed_call (at);

-- +goose Down
DROP TABLE keyed_call;
DROP TABLE keyed_call_head;
