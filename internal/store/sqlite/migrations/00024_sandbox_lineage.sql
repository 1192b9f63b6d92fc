-- +goose Up
ALTER TABLE sandbox ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE sandbox ADD COLUMN config TEXT;
ALTER TABLE sandbox ADD COLUMN parent TEXT NOT NULL DEFAULT '';
CREATE INDEX sandbox_by_source ON sandbox (source) WHERE source <> '';

-- +goose Down
DROP INDEX sandbox_by_source;
ALTER TABLE sandbox DROP COLUMN parent;
ALTER TABLE sandbox DROP COLUMN config;
ALTER TABLE sandbox DROP COLUMN source;
