-- next_rule_at is when the first of a sandbox's rules that the clock alone decides is due; NULL if none is.

-- +goose Up
ALTER TABLE sandbox ADD COLUMN state_since INTEGER;
ALTER TABLE sandbox ADD COLUMN rules TEXT;
ALTER TABLE sandbox ADD COLUMN next_rule_at INTEGER;
-- Since when one of before is as it is, nobody has written down: it is no longer than this.
UPDATE sandbox SET state_since = coalesce(deleted_at, started_at, created_at), next_rule_at = expires_at;
DROP INDEX sandbox_by_expiry;
CREATE INDEX sandbox_by_rule ON sandbox (next_rule_at, id) WHERE next_rule_at IS NOT NULL AND state <> 'deleted';

-- +goose Down
DROP INDEX sandbox_by_rule;
CREATE INDEX sandbox_by_expiry ON sandbox (expires_at) WHERE expires_at IS NOT NULL AND state <> 'deleted';
ALTER TABLE sandbox DROP COLUMN next_rule_at;
ALTER TABLE sandbox DROP COLUMN rules;
ALTER TABLE sandbox DROP COLUMN state_since;
