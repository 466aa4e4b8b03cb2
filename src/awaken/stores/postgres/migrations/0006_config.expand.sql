-- Managed configuration. Columns serve to find a record; the sealed record beside them is authoritative.
CREATE TABLE config_state (
    name TEXT COLLATE "C" PRIMARY KEY,
    publication BIGINT NOT NULL,
    audit_no BIGINT NOT NULL,
    audit_chain BYTEA NOT NULL,
    anchor_no BIGINT NOT NULL,
    anchor_chain BYTEA NOT NULL
);
INSERT INTO config_state (name, publication, audit_no, audit_chain, anchor_no, anchor_chain)
VALUES ('main', 0, 0, '\x00000000000000000000000000000000', 0, '\x00000000000000000000000000000000');

CREATE TABLE config_heads (
    name TEXT COLLATE "C" PRIMARY KEY,
    publication BIGINT,
    revision BIGINT NOT NULL,
    record BYTEA NOT NULL
);

CREATE TABLE config_objects (hash BYTEA PRIMARY KEY, body BYTEA NOT NULL);

CREATE TABLE config_publications (
    no BIGINT PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    record BYTEA NOT NULL,
    contents BYTEA NOT NULL
);
CREATE INDEX config_publications_live ON config_publications (no) WHERE kind = 'live';

CREATE TABLE config_drafts (
    draft_id TEXT COLLATE "C" PRIMARY KEY,
    base BIGINT,
    revision BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    record BYTEA NOT NULL
);

CREATE TABLE config_secrets (
    ref TEXT COLLATE "C" PRIMARY KEY,
    key_id TEXT COLLATE "C" NOT NULL,
    sealed BYTEA NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT COLLATE "C" NOT NULL
);

CREATE TABLE config_requests (
    idempotency_key TEXT COLLATE "C" PRIMARY KEY,
    request_hash TEXT COLLATE "C" NOT NULL,
    publication BIGINT,
    at BIGINT NOT NULL
);

CREATE TABLE config_audit (
    no BIGINT PRIMARY KEY,
    event_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    resource TEXT COLLATE "C" NOT NULL,
    chain BYTEA NOT NULL,
    record BYTEA NOT NULL
);
CREATE INDEX config_audit_resource ON config_audit (resource, no);
CREATE INDEX config_audit_event ON config_audit (event_id);
