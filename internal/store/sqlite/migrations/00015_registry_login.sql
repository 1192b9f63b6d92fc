-- +goose Up
CREATE TABLE registry_login (
    tenant     TEXT    NOT NULL,
    host       TEXT    NOT NULL,
    username   TEXT    NOT NULL,
    sealed     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, host)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE registry_login;
