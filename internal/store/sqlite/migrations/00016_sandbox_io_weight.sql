-- +goose Up
ALTER TABLE sandbox ADD COLUMN io_weight INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sandbox DROP COLUMN io_weight;
