ALTER TABLE outbox ADD COLUMN due_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN is_dead BIGINT NOT NULL DEFAULT 0;
CREATE INDEX outbox_due ON outbox (is_dead, no, due_at);
