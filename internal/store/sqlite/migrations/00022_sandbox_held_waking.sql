-- What is being woken counts to its tenant's vcpus and memory already.

-- +goose Up
DROP INDEX sandbox_held;
CREATE INDEX sandbox_held ON sandbox (tenant, state, operation, vcpus, memory_bytes, disk_bytes) WHERE state <> 'deleted';

-- +goose Down
DROP INDEX sandbox_held;
CREATE INDEX sandbox_held ON sandbox (tenant, state, vcpus, memory_bytes, disk_bytes) WHERE state <> 'deleted';
