-- Events are found by what they are, by who caused them and by when that was. A page still comes in the order of seq.

-- +goose Up
CREATE INDEX event_by_type ON event (tenant, type, seq);
CREATE INDEX event_by_actor ON event (tenant, actor_id, seq);
CREATE INDEX event_by_time ON event (tenant, at, seq);

-- +goose Down
DROP INDEX event_by_time;
DROP INDEX event_by_actor;
DROP INDEX event_by_type;
