-- Schedules, webhook triggers and what became of them. Columns serve to find a record, which is authoritative.
CREATE TABLE schedules (
    schedule_id TEXT COLLATE "C" PRIMARY KEY,
    tenant_id TEXT COLLATE "C",
    agent_id TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    principal_id TEXT COLLATE "C",
    wake_at BIGINT,
    revision BIGINT NOT NULL,
    claim_token TEXT COLLATE "C",
    lease_until BIGINT,
    created_at BIGINT NOT NULL,
    record BYTEA NOT NULL
);
CREATE INDEX schedules_wake ON schedules (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX schedules_created ON schedules (created_at, schedule_id);

CREATE TABLE schedule_firings (
    firing_id TEXT COLLATE "C" PRIMARY KEY,
    schedule_id TEXT COLLATE "C" NOT NULL,
    due_at BIGINT NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    fired_at BIGINT NOT NULL,
    record BYTEA NOT NULL
);
CREATE INDEX schedule_firings_due ON schedule_firings (schedule_id, due_at, firing_id);
CREATE INDEX schedule_firings_age ON schedule_firings (fired_at);

CREATE TABLE triggers (
    trigger_id TEXT COLLATE "C" PRIMARY KEY,
    tenant_id TEXT COLLATE "C",
    agent_id TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    record BYTEA NOT NULL
);
CREATE INDEX triggers_created ON triggers (created_at, trigger_id);

CREATE TABLE trigger_deliveries (
    trigger_id TEXT COLLATE "C" NOT NULL,
    delivery_id TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C",
    outcome TEXT COLLATE "C" NOT NULL,
    received_at BIGINT NOT NULL,
    record BYTEA NOT NULL,
    PRIMARY KEY (trigger_id, delivery_id)
);
CREATE INDEX trigger_deliveries_digest ON trigger_deliveries (trigger_id, digest) WHERE digest IS NOT NULL;
CREATE INDEX trigger_deliveries_received ON trigger_deliveries (trigger_id, received_at, delivery_id);
CREATE INDEX trigger_deliveries_age ON trigger_deliveries (received_at);
