-- One lease for each process (ADR 58). `turns` has who last did what one process at a time does.
CREATE TABLE IF NOT EXISTS nodes (
    node_id TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    host TEXT COLLATE "C" NOT NULL,
    pid BIGINT NOT NULL,
    schema_no BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    beat_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    slots BIGINT NOT NULL,
    busy BIGINT NOT NULL,
    agents TEXT COLLATE "C",
    is_draining BOOLEAN NOT NULL,
    is_over BOOLEAN NOT NULL DEFAULT false
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS turns (
    name TEXT COLLATE "C" PRIMARY KEY,
    taken_at BIGINT NOT NULL,
    taken_by TEXT COLLATE "C" NOT NULL
) WITH (fillfactor = 50);

-- step: beside those who write to the tables
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_held ON threads (claimed_by) WHERE claim_token IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS dispatches_dead ON dispatches (no) WHERE status = 'dead_letter';
-- Claims are found by agent and tenant, and what is delayed stands aside until its time (ADR 59).
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_ready
    ON threads (COALESCE(head_agent, ''), COALESCE(tenant_id, ''), head_priority, turn_at, head_no)
    WHERE turn_at IS NOT NULL AND claim_token IS NULL AND due_at = 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_later ON threads (COALESCE(head_agent, ''), due_at)
    WHERE turn_at IS NOT NULL AND claim_token IS NULL AND due_at > 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_later_lane
    ON threads (COALESCE(head_agent, ''), COALESCE(tenant_id, ''), due_at)
    WHERE turn_at IS NOT NULL AND claim_token IS NULL AND due_at > 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_busy ON threads (COALESCE(tenant_id, '')) WHERE claim_token IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_queued ON threads (queued) WHERE queued > 0;
