-- Schedules, webhook triggers and what became of them. Columns serve to find a record, which is authoritative.
CREATE TABLE schedules (
    schedule_id TEXT PRIMARY KEY,
    tenant_id TEXT,
    agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    principal_id TEXT,
    wake_at INTEGER,
    revision INTEGER NOT NULL,
    claim_token TEXT,
    lease_until INTEGER,
    created_at INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX schedules_wake ON schedules (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX schedules_created ON schedules (created_at, schedule_id);

CREATE TABLE schedule_firings (
    firing_id TEXT PRIMARY KEY,
    schedule_id TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    fired_at INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX schedule_firings_due ON schedule_firings (schedule_id, due_at, firing_id);
CREATE INDEX schedule_firings_age ON schedule_firings (fired_at);

CREATE TABLE triggers (
    trigger_id TEXT PRIMARY KEY,
    tenant_id TEXT,
    agent_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX triggers_created ON triggers (created_at, trigger_id);

CREATE TABLE trigger_deliveries (
    trigger_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    digest TEXT,
    outcome TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (trigger_id, delivery_id)
) STRICT;
CREATE INDEX trigger_deliveries_digest ON trigger_deliveries (trigger_id, digest) WHERE digest IS NOT NULL;
CREATE INDEX trigger_deliveries_received ON trigger_deliveries (trigger_id, received_at, delivery_id);
CREATE INDEX trigger_deliveries_age ON trigger_deliveries (received_at);
