-- What tenants' own templates keep counts for them, from the day of this migration on.

-- +goose Up
ALTER TABLE template ADD COLUMN own_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE template SET own_bytes = size_bytes;

ALTER TABLE usage_day ADD COLUMN template_large INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_day ADD COLUMN template_small INTEGER NOT NULL DEFAULT 0;

CREATE TABLE template_meter (
    tenant TEXT    NOT NULL PRIMARY KEY,
    since  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO template_meter (tenant, since, bytes)
SELECT tenant, unixepoch() * 1000, sum(own) FROM
    (SELECT tenant, max(own_bytes) AS own FROM template WHERE state = 'ready' AND tenant <> 'system'
     GROUP BY tenant, CASE digest WHEN '' THEN id ELSE digest END)
GROUP BY tenant;

-- +goose Down
DROP TABLE template_meter;
ALTER TABLE usage_day DROP COLUMN template_small;
ALTER TABLE usage_day DROP COLUMN template_large;
ALTER TABLE template DROP COLUMN own_bytes;
