-- Managed configuration. Columns serve to find a record; the sealed record beside them is authoritative.
CREATE TABLE config_state (
    name TEXT PRIMARY KEY,
    publication INTEGER NOT NULL,
    audit_no INTEGER NOT NULL,
    audit_chain BLOB NOT NULL,
    anchor_no INTEGER NOT NULL,
    anchor_chain BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO config_state (name, publication, audit_no, audit_chain, anchor_no, anchor_chain)
VALUES ('main', 0, 0, zeroblob(16), 0, zeroblob(16));

CREATE TABLE config_heads (
    name TEXT PRIMARY KEY,
    publication INTEGER,
    revision INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE config_objects (hash BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT;

CREATE TABLE config_publications (
    no INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    record BLOB NOT NULL,
    contents BLOB NOT NULL
) STRICT;
CREATE INDEX config_publications_live ON config_publications (no) WHERE kind = 'live';

CREATE TABLE config_drafts (
    draft_id TEXT PRIMARY KEY,
    base INTEGER,
    revision INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;

CREATE TABLE config_secrets (
    ref TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL
) STRICT;

CREATE TABLE config_requests (
    idempotency_key TEXT PRIMARY KEY,
    request_hash TEXT NOT NULL,
    publication INTEGER,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE config_audit (
    no INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    resource TEXT NOT NULL,
    chain BLOB NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX config_audit_resource ON config_audit (resource, no);
CREATE INDEX config_audit_event ON config_audit (event_id);
