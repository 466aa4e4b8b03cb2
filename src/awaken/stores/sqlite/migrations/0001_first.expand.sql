-- Small pages: a commit touches a few rows of several tables, and each touched page is written whole.

CREATE TABLE threads (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL DEFAULT 0,
    message_count INTEGER NOT NULL DEFAULT 0,
    event_seq INTEGER NOT NULL DEFAULT 0,
    purged_version INTEGER NOT NULL DEFAULT 0,
    purged_seq INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER,
    sort_at INTEGER NOT NULL DEFAULT 0,
    resource_id TEXT,
    parent_id TEXT,
    latest_run_id TEXT,
    head BLOB NOT NULL,
    claim_token TEXT,
    claimed_by TEXT,
    claim_dispatch TEXT,
    cancel_cause TEXT,
    lease_until INTEGER,
    epoch INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0,
    served_at INTEGER NOT NULL DEFAULT 0,
    head_priority INTEGER,
    due_at INTEGER,
    turn_at INTEGER,
    head_no INTEGER,
    head_agent TEXT
) STRICT;
CREATE INDEX threads_claimed ON threads (claim_token) WHERE claim_token IS NOT NULL;
CREATE INDEX threads_waiting ON threads (head_priority, turn_at, head_no) WHERE turn_at IS NOT NULL;
CREATE INDEX threads_parent ON threads (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX threads_resource ON threads (resource_id) WHERE resource_id IS NOT NULL;

CREATE TABLE commits (
    place INTEGER PRIMARY KEY,
    commit_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    run_id TEXT,
    committed_at INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    event_seq INTEGER NOT NULL,
    events BLOB,
    tools BLOB
) STRICT;

CREATE TABLE messages (
    place INTEGER PRIMARY KEY,
    id_key INTEGER,
    created_at INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX messages_id ON messages (id_key) WHERE id_key IS NOT NULL;

CREATE TABLE runs (
    place INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    thread_no INTEGER NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    first_version INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX runs_open ON runs (status) WHERE status <> 'done';

CREATE TABLE state (
    thread_no INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (thread_no, scope, name)
) STRICT;

CREATE TABLE tickets (
    ticket_id TEXT NOT NULL UNIQUE,
    thread_no INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX tickets_thread ON tickets (thread_no, run_id);
CREATE INDEX tickets_open ON tickets (created_at, ticket_id) WHERE status = 'open';
CREATE INDEX tickets_deadline ON tickets (expires_at)
    WHERE status = 'open' AND expires_at IS NOT NULL;

CREATE TABLE checkpoints (
    run_id TEXT NOT NULL UNIQUE,
    thread_no INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX checkpoints_thread ON checkpoints (thread_no);

CREATE TABLE outbox (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    entry_id TEXT NOT NULL UNIQUE,
    thread_no INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX outbox_thread ON outbox (thread_no);

CREATE TABLE dispatches (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    dispatch_id TEXT NOT NULL UNIQUE,
    thread_no INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    available_at INTEGER NOT NULL,
    mode TEXT NOT NULL,
    dedupe_key TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX dispatches_queued ON dispatches (thread_no, priority, no) WHERE status = 'queued';
CREATE INDEX dispatches_thread ON dispatches (thread_no);
CREATE UNIQUE INDEX dispatches_dedupe ON dispatches (thread_no, dedupe_key)
    WHERE dedupe_key IS NOT NULL;
CREATE INDEX dispatches_run ON dispatches (run_id);
CREATE INDEX dispatches_ended ON dispatches (updated_at)
    WHERE status NOT IN ('queued', 'claimed');

CREATE TABLE profiles (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
