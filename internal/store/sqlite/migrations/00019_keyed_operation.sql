-- +goose Up
ALTER TABLE keyed_call ADD COLUMN operation TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE keyed_call DROP COLUMN operation;
