-- +goose Up
ALTER TABLE exec ADD COLUMN tag TEXT NOT NULL DEFAULT '';

-- A caller finds an exec by the word it gave it, or by its process id inside: no such lookup reads the other records.
CREATE INDEX exec_by_tag ON exec (sandbox, tag, started_at, id) WHERE tag <> '';
CREATE INDEX exec_running_by_tag ON exec (sandbox, tag, started_at, id) WHERE tag <> '' AND outcome = '';
CREATE INDEX exec_by_pid ON exec (sandbox, pid) WHERE pid <> 0;

-- +goose Down
DROP INDEX exec_by_pid;
DROP INDEX exec_running_by_tag;
DROP INDEX exec_by_tag;
ALTER TABLE exec DROP COLUMN tag;
