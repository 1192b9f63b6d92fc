-- +goose Up
ALTER TABLE exec ADD COLUMN out_of_memory INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE exec DROP COLUMN out_of_memory;
