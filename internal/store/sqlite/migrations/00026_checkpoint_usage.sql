-- What tenants' checkpoints keep counts for them, from the day of this migration on.

-- +goose Up
ALTER TABLE usage_day ADD COLUMN checkpoint_large INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_day ADD COLUMN checkpoint_small INTEGER NOT NULL DEFAULT 0;

CREATE TABLE checkpoint_meter (
    tenant TEXT    NOT NULL PRIMARY KEY,
    since  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE checkpoint_meter;
ALTER TABLE usage_day DROP COLUMN checkpoint_small;
ALTER TABLE usage_day DROP COLUMN checkpoint_large;
