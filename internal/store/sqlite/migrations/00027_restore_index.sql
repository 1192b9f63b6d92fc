-- Whether a sandbox is being restored to a checkpoint.

-- +goose Up
CREATE INDEX sandbox_by_restore ON sandbox (operation_arg) WHERE operation = 'restore';

-- +goose Down
DROP INDEX sandbox_by_restore;
