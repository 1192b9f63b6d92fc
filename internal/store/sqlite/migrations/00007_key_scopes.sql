-- +goose Up
ALTER TABLE api_key ADD COLUMN dialect TEXT NOT NULL DEFAULT '';
-- A key of before may do what all could then: its tenant's work.
ALTER TABLE api_key ADD COLUMN scopes TEXT
    DEFAULT '["sandboxes:read","sandboxes:write","execs","files","templates:read","templates:write","events:read","usage:read"]';
ALTER TABLE api_key ADD COLUMN labels TEXT;
ALTER TABLE api_key ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN used_at INTEGER;
CREATE INDEX api_key_by_parent ON api_key (parent) WHERE parent <> '';
CREATE INDEX api_key_by_expiry ON api_key (expires_at) WHERE expires_at IS NOT NULL;

-- +goose Down
DROP INDEX api_key_by_expiry;
DROP INDEX api_key_by_parent;
ALTER TABLE api_key DROP COLUMN used_at;
ALTER TABLE api_key DROP COLUMN parent;
ALTER TABLE api_key DROP COLUMN labels;
ALTER TABLE api_key DROP COLUMN scopes;
ALTER TABLE api_key DROP COLUMN dialect;
