-- +goose Up
-- unsettled: it runs, or what it has needed and left is not removed yet, or nobody has written down that it is.
ALTER TABLE operation ADD COLUMN unsettled INTEGER NOT NULL DEFAULT 1;
UPDATE operation SET unsettled = 0 WHERE state <> 'running';
DROP INDEX operation_running;
CREATE INDEX operation_unsettled ON operation (created_at, id) WHERE unsettled;

-- +goose Down
DROP INDEX operation_unsettled;
CREATE INDEX operation_running ON operation (created_at, id) WHERE state = 'running';
ALTER TABLE operation DROP COLUMN unsettled;
