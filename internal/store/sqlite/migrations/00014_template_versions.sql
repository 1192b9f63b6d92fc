-- +goose Up
ALTER TABLE template ADD COLUMN files INTEGER NOT NULL DEFAULT 0;
ALTER TABLE template ADD COLUMN entrypoint TEXT;
ALTER TABLE template ADD COLUMN cmd TEXT;
ALTER TABLE template ADD COLUMN labels TEXT;
ALTER TABLE template ADD COLUMN ports TEXT;

CREATE INDEX template_by_digest ON template (digest) WHERE digest <> '';
CREATE INDEX sandbox_by_template ON sandbox (template_id) WHERE state <> 'deleted';

-- The number of the newest version that a name has had: a number is never used again.
CREATE TABLE template_head (
    tenant  TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

INSERT INTO template_head (tenant, name, version) SELECT tenant, name, max(version) FROM template GROUP BY tenant, name;

CREATE TABLE template_tag (
    tenant   TEXT NOT NULL,
    name     TEXT NOT NULL,
    tag      TEXT NOT NULL,
    template TEXT NOT NULL REFERENCES template (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, name, tag)
) STRICT, WITHOUT ROWID;

CREATE INDEX template_tag_by_template ON template_tag (template, tag);

-- +goose Down
DROP TABLE template_tag;
DROP TABLE template_head;
DROP INDEX sandbox_by_template;
DROP INDEX template_by_digest;
ALTER TABLE template DROP COLUMN ports;
ALTER TABLE template DROP COLUMN labels;
ALTER TABLE template DROP COLUMN cmd;
ALTER TABLE template DROP COLUMN entrypoint;
ALTER TABLE template DROP COLUMN files;
