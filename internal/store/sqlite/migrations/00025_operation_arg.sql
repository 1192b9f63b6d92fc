-- +goose Up
ALTER TABLE sandbox ADD COLUMN operation_arg TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE sandbox DROP COLUMN operation_arg;
