-- Shorter indexes, and a column that lets a dispatch end without writing any. Older code uses those that the contract drops.
-- How a claimed dispatch ended; its status stays, because indexes depend on that.
ALTER TABLE dispatches ADD COLUMN IF NOT EXISTS ended TEXT COLLATE "C";
ALTER TABLE dispatches SET (fillfactor = 70);

-- step
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_newest ON threads (sort_at DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_busy_tenants ON threads (tenant_id)
    WHERE claim_token IS NOT NULL AND tenant_id IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_served_later ON threads (served_at)
    WHERE turn_at IS NOT NULL AND claim_token IS NULL AND due_at > 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_newest ON runs (created_at);
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_newest_of_agent ON runs (agent_id, created_at);
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_unfinished ON runs (created_at) WHERE status <> 'done';
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_over ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS dispatches_of_run ON dispatches USING hash (run_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS dispatches_created ON dispatches (created_at);
